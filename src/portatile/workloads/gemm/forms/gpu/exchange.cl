{# Before gpu.cl stores the sums of matrix instructions, neighbouring lanes exchange two of their four columns. #}
    // so that two neighbouring lanes store 32 contiguous bytes
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
