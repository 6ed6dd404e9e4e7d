{# The multiply-add of vectors `realv` of VL elements, and how these are loaded and stored at any alignment of elements. #}
{% if MAD == "fma" and real != "uint" %}
#define MULTIPLY_ADD(x, y, z) fma(({{ realv }})(x), (y), (z))
{% elif MAD == "mad" and real != "uint" %}
#define MULTIPLY_ADD(x, y, z) mad(({{ realv }})(x), (y), (z))
{% else %}
#define MULTIPLY_ADD(x, y, z) ((x) * (y) + (z))
{% endif %}
#if defined(PORTATILE_CUDA)
#define LOAD(p) {{ "(*(p))" if VL == 1 else "vload%d(0, p)" % VL }}
#define STORE(x, p) {{ "(*(p) = (x))" if VL == 1 else "vstore%d(x, 0, p)" % VL }}
#else  // not vload: some compilers call it as a function, and some crash on its 512-bit forms
typedef {{ realv }} loose __attribute__((aligned({{ 8 if real == "double" else 4 }})));
#define LOAD(p) (*(__global const loose*)(p))
#define STORE(x, p) (*(__global loose*)(p) = (x))
#endif
