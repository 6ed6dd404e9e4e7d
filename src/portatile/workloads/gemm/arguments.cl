{# What the product's kernel is passed, whatever its form: plan.py passes it in this order. Forms that take local memory as an argument
   where it is more than CUDA has static say so in `local_argument`. #}
void gemm(const int m, const int n, const int k, const int start, const int chunk, const {{ real }} alpha, const {{ real }} beta,
{% if TXC %}
          __read_only image2d_t a_image, __read_only image2d_t b_image,
{% else %}
          __global const {{ real }}* restrict a_base, const long a_offset, const int lda,
          __global const {{ real }}* restrict b_base, const long b_offset, const int ldb,
{% endif %}
          __global {{ real }}* restrict c_base, const long c_offset, const int ldc{{ ", const long a_batch, const long b_batch, const long c_batch" if BATCH }}{{ local_argument if local_argument is defined }})
