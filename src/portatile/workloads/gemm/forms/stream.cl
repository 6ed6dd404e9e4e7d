{# Stream-K: how groups that go from tile to tile share the k of some of them evenly, so that all end at once however few tiles there are.

   C has `all` tiles, each with `count` tiles of k. Where they fill no whole number of rounds of the groups, the last round, and the full
   one before it, are shared: these tiles come first, and their steps, one after the other, are cut into a span for each group:

        tile    |      0      |      1      |      2      |            4 groups, 3 tiles of 8 steps: 6 steps each
        group   |    0    |    1    |    2    |    3    |

   Who shares a tile leaves its sums in `planes`, two places for each group: 2 g + 1 for the tile that begins in its span, 2 g for one that
   began before it. The last that comes adds them up, always in the order of k. So no group ever waits for another one.
   Nothing here needs products of more than 31 bits: the shared steps are fewer than 2 groups count. #}
{% macro spans() %}
    const int groups = (int)get_num_groups(0), own = (int)get_group_id(0), all = down * across;
    const int shared = all % groups == 0 ? 0 : all - max(all / groups - 1, 0) * groups;
    const int each = shared * count / groups, more = shared * count % groups;  // the first `more` groups have a step more than `each`
{% endmacro %}
{# opens the loop over the work of a group: steps first .. last - 1 of tile `at`; state is kept under names that begin with `name` #}
{% macro work(name) %}
        const int {{ name }}_end = each * (own + 1) + min(own + 1, more);
        int {{ name }}_step = each * own + min(own, more), {{ name }}_tile = shared + own;
        for (;;) {
            int at, first_step = 0, last_step = count;
            if ({{ name }}_step < {{ name }}_end) {
                at = {{ name }}_step / count;
                first_step = {{ name }}_step - at * count;
                last_step = min(count, first_step + {{ name }}_end - {{ name }}_step);
                {{ name }}_step += last_step - first_step;
            } else {
                if ({{ name }}_tile >= all)
                    break;
                at = {{ name }}_tile;
                {{ name }}_tile += groups;
            }
{% endmacro %}
{# the groups `from` .. `to` that share tile `at` #}
{% macro sharers() %}
            const int from = sharer(at * count, each, more), to = sharer(at * count + count - 1, each, more);
{% endmacro %}
{% macro sharing() %}
// the group whose span has this step
static inline int sharer(const int step, const int each, const int more)
{
    const int longer = (each + 1) * more;  // steps of the first groups
    return step < longer ? step / (each + 1) : more + (step - longer) / each;
}

{% endmacro %}
