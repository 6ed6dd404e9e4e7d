{# The producer of the hopper form: the order of the tiles of C (tile_coordinates), and the TMA copies of a stage. hopper.cl has the
   drawing. #}
{# the coordinates of tile number `at` (of a cluster's tiles, one below the other); with the host's maps the numbers run through a whole
   batch #}
{% macro tile_coordinates() %}
{% set place = "within_problem" if spans_batch else "at" %}
{% if spans_batch %}
        const int problem = at / (down * across), within_problem = at - problem * (down * across);
{% endif %}
{% set own = " + (int)rank * %d" % bm if CLUSTER > 1 %}
{% set bm = bm * CLUSTER %}
{% if RASTER == 0 %}
        const int row0 = {{ place }} % down * {{ bm }}{{ own }}, col0 = {{ place }} / down * {{ bn }};
{% elif RASTER == 1 %}
        const int row0 = {{ place }} / across * {{ bm }}{{ own }}, col0 = {{ place }} % across * {{ bn }};
{% else %}
        const int band = {{ place }} / ({{ RASTER }} * across), within = {{ place }} - band * ({{ RASTER }} * across);
        const int height = min({{ RASTER }}, down - band * {{ RASTER }});
        const int row0 = (band * {{ RASTER }} + within % height) * {{ bm }}{{ own }}, col0 = within / height * {{ bn }};
{% endif %}
{% endmacro %}
{# copies of an operand's tile for this step: one box for the whole tile if rows run along k, otherwise boxes of 128 bytes across k #}
{% macro copies(x, along, wide, place, at) %}
{% set shared = x == "b" and CLUSTER > 1 %}
{% set boxes = 1 if along else wide * itemsize // 128 %}
{% set part = "(int)rank * %d" % ((wide if along else depth) // CLUSTER) if shared else "0" %}
{% set planes = spans_batch and (A_PLANES if x == "a" else B_PLANES) %}
{% for term in range(TERMS) %}
{% set far = " + %s" % ("m" if x == "a" else "n") if term else "" %}
{% for box in range(boxes) %}
                    {{ ("tensor_copy_by" if MAPS else "tensor_copy") ~ ("_3d" if planes) ~ ("_to_all" if shared) }}(to + ({{ part }}) * 128 + {{ place + box * depth * 128 + term * wide * 128 }}, {{ x ~ "_at" if MAPS else "map + 128" if x == "b" else "map" }}, {{ "k_next, %s + %s%s" % (at, part, far) if along else "%s + %d, k_next + %s" % (at, box * 128 // itemsize, part) }}{{ ", problem" if planes }}, full + stage * 8{{ ", %d" % (2 ** CLUSTER - 1) if shared }});
{% endfor %}
{% endfor %}
{% endmacro %}
{# the work-item that issues the TMA copies of tiles #}
{% macro tma_producer() %}
        if (item == {{ 128 * TBR }}) {
            int stage = 0, phase = 1;
            for (int at = first_tile; at < {{ tiles }}; at += tiles_at_once) {
{{ tile_coordinates() }}
                for (int k_next = k0; k_next < k1; k_next += {{ depth }}) {
                    const uint to = first + stage * {{ stage_bytes }};
                    mbarrier_wait(empty + stage * 8, phase);
                    mbarrier_expect(full + stage * 8, {{ TERMS * (bm + bn) * 128 }});
{{ copies("a", A_ALONG, bm, 0, "row0") }}{{ copies("b", B_ALONG, bn, TERMS * bm * 128, "col0") }}                    phase ^= stage == {{ STAGES - 1 }};
                    stage = stage == {{ STAGES - 1 }} ? 0 : stage + 1;
                }
            }
        }
{% endmacro %}
