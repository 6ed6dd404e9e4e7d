{# The parts of a work-group have summed stages in turn. All but the first leave their sums in the local memory of the stages, which is free
   now, and the first one adds them to its own, in order. #}
        group_wait({{ products }});
        if (part > 0) {
{{ each_slot() }}                    *(__local {{ realv }}*)(tiles + ((part - 1) * {{ slots }} + {{ number }}) * {{ team * vector }} + item % {{ team }} * {{ vector }}) = {{ sums }};
        }
        group_wait({{ products }});
        if (part > 0)
            return;
#pragma unroll
        for (int other = 0; other < {{ KG - 1 }}; ++other)
{{ each_slot() }}                    {
                        const {{ realv }} theirs = *(__local const {{ realv }}*)(tiles + (other * {{ slots }} + {{ number }}) * {{ team * vector }} + item * {{ vector }});
{{ add_to_sums("theirs") }}                    }
{% if CLUSTER > 1 %}
        group_wait({{ team }});
{% endif %}
