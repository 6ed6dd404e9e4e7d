{# The parts of a group have summed up stages by turns: all but the first leave their sums in local memory, which no stage needs any more,
   and the first one adds them to its own, in order. #}
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
