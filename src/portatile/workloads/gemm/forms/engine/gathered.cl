{# The groups of a cluster share a tile's k: each leaves its sums in its own local memory and then adds up, and stores, a share of the
   tile, of which it reads every group's part in order. With JOIN several clusters share the tile's k, and leave what they added up to last.cl. #}
{% if KG == 1 %}
        group_wait({{ team }});  // all have read the last stage
{% endif %}
{{ each_slot() }}                    *(__local {{ realv }}*)(tiles + ({{ number }}) * {{ team * vector }} + item * {{ vector }}) = {{ sums }};
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
#pragma unroll
        for (int turn = 0; turn < {{ (slots + CLUSTER - 1) // CLUSTER }}; ++turn) {
            const int slot_ = {{ rank }} + turn * {{ CLUSTER }};
{% if slots % CLUSTER %}
            if (slot_ >= {{ slots }})
                break;
{% endif %}
            {{ realv }} one[{{ CLUSTER }}];
#pragma unroll
            for (int from = 0; from < {{ CLUSTER }}; ++from) {
                uint there;
                asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(first + (slot_ * {{ team }} + item) * 16), "r"(from));
                asm volatile("ld.shared::cluster.v{{ vector }}.{{ kind }} {% raw %}{{% endraw %}{% for e in range(vector) %}%{{ e }}{{ ", " if not loop.last }}{% endfor %}}, [%{{ vector }}];"
                    : {% for e in range(vector) %}"={{ letter }}"(one[from].s{{ e }}){{ ", " if not loop.last }}{% endfor %} : "r"(there) : "memory");
            }
            {{ realv }} total = one[0];
#pragma unroll
            for (int from = 1; from < {{ CLUSTER }}; ++from)
                total += one[from];
{% if JOIN %}
{{ leave("slot_", "total") }}
{%- else %}
{{ store("slot_", "total") }}
{%- endif %}
        }
        // the others' local memory stays until all have read it
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
{% if JOIN %}
{% include "last.cl" %}
{% endif %}
