{# The arguments of the product's kernel in every form, in the order of plan.py. A form whose local memory may exceed what CUDA allows to
   declare has it as a further argument, `local_argument`. #}
{% from "elements.cl" import block_parameters, epilogue_parameters with context %}
void gemm(const int m, const int n, const int k, const int start, const int chunk, const {{ factor }} alpha, const {{ factor }} beta,
{% if A_FROM == "image" and B_FROM == "image" %}
          __read_only image2d_t a_image, __read_only image2d_t b_image,
{% else %}
{% for x, from in (("a", A_FROM), ("b", B_FROM)) %}
{% if from == "image" %}
          __read_only image2d_t {{ x }}_image,
{% elif from == "view" %}
          __read_only image1d_buffer_t {{ x }}_view, const long {{ x }}_offset, const int ld{{ x }},
{% else %}
          __global const {{ real if from == "panel" else stored }}* restrict {{ x }}_base, const long {{ x }}_offset, const int ld{{ x }},
{% endif %}
{% endfor %}
{% endif %}
          __global {{ real if SPLIT and not JOIN else stored_c }}* restrict c_base, const long c_offset, const int ldc{{ ", __global const %s* restrict d_base, const long d_offset, const int ldd" % stored_c if ADDED | default(false) }}{{ ", const long a_batch, const long b_batch, const long c_batch" if BATCH }}{{ ", __global %s* planes, volatile __global uint* counters" % real if JOIN or STREAMED | default(false) }}{{ ", const int share, const int shared" if STREAMED | default(false) }}{{ ", const int first_tile" if REST | default(false) }}{{ block_parameters("a") ~ block_parameters("b") if BLOCK and A_FROM == "memory" }}{% if not SPLIT or JOIN %}{{ epilogue_parameters() }}{{ ", __global const int* restrict scales" if TERMS is defined and TERMS > 1 }}{% endif %}{{ local_argument if local_argument is defined }})
