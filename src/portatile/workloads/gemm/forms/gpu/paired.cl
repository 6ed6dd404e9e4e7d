{# The second product of a pair: A and B in each other's place. #}
    __global const {{ real }}* const first_base = a_base;
    __global const {{ real }}* const second_base = b_base;
    const long first_offset = a_offset, second_offset = b_offset;
    const int first_ld = lda, second_ld = ldb;
    {
    __global const {{ real }}* const a_base = second_base;
    __global const {{ real }}* const b_base = first_base;
    const long a_offset = second_offset, b_offset = first_offset;
    const int lda = second_ld, ldb = first_ld;
