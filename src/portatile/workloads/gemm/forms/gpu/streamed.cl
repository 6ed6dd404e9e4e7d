{# Stream-K in gpu.cl: work-groups share the tiles of C's triangle evenly (Osama et al., 2023). The steps of k of all tiles form one
   sequence:

         |  tile 0  |  tile 1  |  tile 2  | ...
          group 0 |  group 1  |  group 2 ...

   Of the first `shared` tiles each work-group takes the next `share` steps, so that all end together; every other tile has a work-group of
   its own. What a work-group computes of one tile is a piece. The text contains the code of a piece once for each of PIECES, or once in a
   loop (LOOPED): in loops, compilers move the operands of matrix instructions between registers. Variables that are not needed while a
   piece is multiplied are kept in local memory, because registers are scarce. #}
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
