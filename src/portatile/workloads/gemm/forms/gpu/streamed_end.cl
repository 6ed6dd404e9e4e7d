{# The end of a piece: on to the next one of the group. #}
    barrier(CLK_LOCAL_MEM_FENCE);  // nobody reads this piece's tiles any more
    if (item == 0)
        {{ kept("at") }} = (number + 1) * steps;
    barrier(CLK_LOCAL_MEM_FENCE);
    }
    }{{ " while (%s < %s);" % (kept("at"), kept("end")) if LOOPED }}
