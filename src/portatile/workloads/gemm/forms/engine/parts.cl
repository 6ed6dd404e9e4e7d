{# The parts of a group have summed up stages by turns: all but the first leave their sums in local memory, which no stage needs any more,
   and the first one adds them to its own, in order. #}
        group_wait({{ products }});
        if (part > 0) {
{{ each_slot() }}                    *(__local double2*)(tiles + ((part - 1) * {{ slots }} + {{ number }}) * {{ team * 2 }} + item % {{ team }} * 2) = {{ sums }};
        }
        group_wait({{ products }});
        if (part > 0)
            return;
#pragma unroll
        for (int other = 0; other < {{ KG - 1 }}; ++other)
{{ each_slot() }}                    {
                        const double2 theirs = *(__local const double2*)(tiles + (other * {{ slots }} + {{ number }}) * {{ team * 2 }} + item * 2);
                        acc[r][j][h] += theirs.x;
                        acc[r][j][h + 2] += theirs.y;
                    }
{% if CLUSTER > 1 %}
        group_wait({{ team }});
{% endif %}
