{# The end of a piece: the work-group continues with its next one. #}
    barrier(CLK_LOCAL_MEM_FENCE);  // all work-items have finished with this piece's tiles
    if (item == 0)
        {{ kept("at") }} = (number + 1) * steps;
    barrier(CLK_LOCAL_MEM_FENCE);
    }
    }{{ " while (%s < %s);" % (kept("at"), kept("end")) if LOOPED }}
