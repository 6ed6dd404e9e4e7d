{# The work-groups of a cluster share a tile's k: each leaves its sums in its own local memory; then each adds up, in order, a share of the
   tile from all of them, and stores it. With JOIN several clusters share the tile's k, and last.cl adds up their sums. #}
{% from "cluster.cl" import sum_of_cluster, wait_for_cluster %}
{% if KG == 1 %}
        group_wait({{ team }});  // all work-items have read the last stage
{% endif %}
{{ each_slot() }}                    *(__local {{ realv }}*)(tiles + ({{ number }}) * {{ team * vector }} + item * {{ vector }}) = {{ sums }};
        {{ wait_for_cluster() }}
#pragma unroll
        for (int turn = 0; turn < {{ (slots + CLUSTER - 1) // CLUSTER }}; ++turn) {
            const int slot_ = {{ rank }} + turn * {{ CLUSTER }};
{% if slots % CLUSTER %}
            if (slot_ >= {{ slots }})
                break;
{% endif %}
{{ sum_of_cluster(CLUSTER, "first + (slot_ * %d + item) * 16" % team, real, vector, itemsize) }}{% if JOIN %}
{{ leave("slot_", "total") }}
{%- else %}
{{ store("slot_", "total") }}
{%- endif %}
        }
        // no work-group may end while others still read its local memory
        {{ wait_for_cluster() }}
{% if JOIN %}
{% include "last.cl" %}
{% endif %}
