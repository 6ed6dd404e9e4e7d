{# Barriers and sums through the local memory of a cluster's work-groups (distributed shared memory); NVIDIA's compute capability 9.0. #}
{% macro wait_for_cluster() -%}
asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
{%- endmacro %}
{# declares `total`, a vector of `elements`: the sum, in order, of the values at `address` in the local memory of each of the `groups` #}
{% macro sum_of_cluster(groups, address, real, elements, itemsize) %}
{% set letter, kind = ("d", "f64") if itemsize == 8 else ("f", "f32") %}
        {{ real }}{{ elements }} one[{{ groups }}];
#pragma unroll
        for (int from = 0; from < {{ groups }}; ++from) {
            uint there;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"({{ address }}), "r"(from));
            asm volatile("ld.shared::cluster.v{{ elements }}.{{ kind }} {% raw %}{{% endraw %}{% for e in range(elements) %}%{{ e }}{{ ", " if not loop.last }}{% endfor %}}, [%{{ elements }}];"
                : {% for e in range(elements) %}"={{ letter }}"(one[from].s{{ e }}){{ ", " if not loop.last }}{% endfor %} : "r"(there) : "memory");
        }
        {{ real }}{{ elements }} total = one[0];
#pragma unroll
        for (int from = 1; from < {{ groups }}; ++from)
            total += one[from];
{% endmacro %}
