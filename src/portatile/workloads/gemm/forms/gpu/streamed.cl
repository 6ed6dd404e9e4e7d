{# How gpu.cl begins where groups share the tiles of C's triangle evenly: stream-K (Osama et al., 2023). The steps of k of all tiles lie in a row:

         |  tile 0  |  tile 1  |  tile 2  | ...
          group 0 |  group 1  |  group 2 ...

   Of the first `shared` tiles a group has the next `share` steps, so that all groups end together; a tile that was left has a group of its
   own. What a group has of a tile is a piece. The text comes once for each of them, or is LOOPED: in a loop over pieces compilers move the
   operands of matrix instructions about. What nobody needs while a piece is multiplied waits in local memory, for registers are scarce. #}
    __local int kept_ints[{{ kept_names | length }}];
    volatile __local int* const kept = kept_ints;
    const int steps = (k - 1) / {{ KB }} + 1;
    if (item == 0) {
        const int group = (int)get_group_id(0), sharing = (shared * steps - 1) / share + 1;
        const int origin = group < sharing ? group * share : (shared + group - sharing) * steps;
        {{ kept("origin") }} = origin;
        {{ kept("end") }} = group < sharing ? min(origin + share, shared * steps) : origin + steps;
        {{ kept("at") }} = origin;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    {{ real }} acc[{{ rows }}][{{ cols }}];
