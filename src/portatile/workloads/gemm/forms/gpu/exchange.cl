{# Before gpu.cl stores what matrix instructions left: two columns of each lane's four change places with its neighbour's. #}
    // neighbouring lanes exchange halves of their four columns, so that two of them store 32 bytes that lie together
    const int odd = lane % 2;
#pragma unroll
    for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
        for (int c = 0; c < {{ cols }}; c += 4)
#pragma unroll
            for (int e = c; e < c + 2; ++e) {
                const double got = SHUFFLE_XOR(odd ? acc[r][e] : acc[r][e + 2], 1);
                acc[r][e] = odd ? got : acc[r][e];
                acc[r][e + 2] = odd ? acc[r][e + 2] : got;
            }
