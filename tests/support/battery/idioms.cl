// C as people write it, where C++ differs: names, types, initialisers, the preprocessor, control flow.

//// cpp_keywords
__kernel void k(__global const int *a, __global int *o)
{
  int i = get_global_id(0);
  int new = a[i], class = 2, this = 3;
  int template[2] = {new, class};
  int operator = template[0] + template[1] * this;
  {
    int delete = 1, and = 2, friend = delete + and;
    operator += friend;
  }
  o[i] = operator;
}

//// cuda_names
#define N 3
typedef struct {
  int x, y;
} dim3;
float norm(float x)
{
  return x * 2;
}

int atomicAdd(int a, int b)
{
  return a + b;
}

float __fadd(float a)
{
  return a;
}

__kernel void k(__global const float *a, __global float *o)
{
  int threadIdx = get_global_id(0), blockDim = 2, warpSize = 5;
  dim3 g = {blockDim, warpSize};
  o[threadIdx] = norm(a[threadIdx]) + atomicAdd(g.x, g.y) + __fadd(1.0f);
}

//// kernel_named_like_library
__kernel void round(__global const float *a, __global float *o)
{
  int i = get_global_id(0);
  o[i] = a[i] + 1;
}

//// struct_compound_literal
typedef struct {
  int n;
  float f;
} pair;
struct triple {
  int a, b, c;
};
pair make(int n, float f)
{
  return (pair){n, f};
}

__kernel void k(__global const float *a, __global float *o)
{
  int i = get_global_id(0);
  pair p = make(i, a[i]);
  struct triple t = (struct triple){i, 2, 3};
  p = (pair){p.n + 1, p.f};
  o[i] = p.f * p.n + t.a * t.c;
}

//// designated_initialiser
struct item {
  int n;
  float f;
  int k;
};
__kernel void k(__global int *o)
{
  struct item t = {.n = 2, .k = 5};
  int i = get_global_id(0);
  o[i] = t.n * i + t.k + (int)t.f;
}

//// enumeration
enum mode { FIRST, SECOND = 5, THIRD };
typedef enum { OFF, ON } state;
__kernel void k(__global int *o)
{
  int i = get_global_id(0);
  enum mode m = i & 1 ? SECOND : THIRD;
  state s = ON;
  int n = m;
  o[i] = n + s + max(FIRST, 1);
}

//// narrowing_initialiser
__kernel void k(__global const float *a, __global float *o)
{
  int i = get_global_id(0);
  int n = a[i] > 0;
  float t[3] = {n, i, 2.5};
  uchar c[2] = {300 - 256, i};
  o[i] = t[0] + t[1] + t[2] + c[0] + c[1];
}

//// preprocessor
#define CAT(a, b) a##b
#define STR(x) #x
#define MUL(a, b) ((a) * (b))
#define LOOP(n, body) for (int j = 0; j < n; j++) { body; }
#if defined(SCALE) && SCALE > 2
#define F CAT(2, 5)
#else
#error wrong
#endif
#ifdef UNSET
this is not C
#elif SCALE == 3
#undef F
#define F 7
#endif
/* a comment
 over lines */ __kernel void k(__global int *o) { // another
 int i = get_global_id(0), s = 0; LOOP(3, s += MUL(i + 1, F))
 o[i] = s + sizeof(STR(abc)) + __LINE__; }

//// extension_checks
#pragma OPENCL EXTENSION cl_khr_global_int32_base_atomics : enable
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#if __OPENCL_VERSION__ < 110
#error too old
#endif
#ifndef M_PI_F
#define M_PI_F 3
#endif
__kernel void k(__global int *o)
{
  o[get_global_id(0)] = (int)M_PI_F + CL_VERSION_1_1 + (__OPENCL_C_VERSION__ >= 110);
}

//// unroll
__kernel void k(__global const int *a, __global int *o)
{
  int i = get_global_id(0);
  int s = 0;
#pragma unroll
  for (int j = 0; j < 4; j++) s += j * a[i];
#pragma unroll 2
  for (int j = 0; j < 3; j++) s += j;
#define U 3
#pragma unroll U
  for (int j = 0; j < U; j++) s ^= j;
  o[i] = s;
}

//// control_flow
__kernel void k(__global const float *a, __global int *o)
{
  int i = get_global_id(0);
  int n = 0, j = 0;
  while (1) {
    if (j == 5) break;
    j++;
    if (j == 2) continue;
    n += j;
  }
  do {
    n--;
  } while (n > 12);
  switch (i & 3) {
    case 0: n += 1;
    break;
    case 1: case 2: n += 10;
    default: n += 100;
  }
  goto end;
  n = 0;
  end: o[i] = n + (a[i] != a[i]);
}

//// integer_types
__kernel void k(__global const int *a, __global int *o)
{
  int i = get_global_id(0);
  unsigned char c = 200;
  unsigned short s = 65535;
  signed char t = -3;
  unsigned x = 4000000000u;
  long l = 1L << 40;
  unsigned long ul = 1UL << 63;
  bool b = c;
  _Bool d = 0;
  uint q = -1;
  o[i] = c + s + t + (int)(x >> 20) + (int)(l >> 38) + (int)(ul >> 60) + b + d + (q == 0xffffffffu) + sizeof(long)
      + sizeof(size_t) + a[i] * 0;
}

//// integer_promotion
__kernel void k(__global const int *a, __global int *o)
{
  int i = get_global_id(0);
  uchar c = a[i];
  char s = (char)c;
  short h = (short)(a[i] << 3);
  c += 200;
  o[i] = c + s + h + (uchar)(c << 1) + ~(ushort)3;
}

//// recursive_macros_and_typedefs
typedef float real;
typedef float2 real2;
typedef __global const real *input;
__kernel void k(input a, __global real2 *o)
{
  int i = get_global_id(0);
  o[i] = (real2)(a[i], 1) + (real2)2.0f;
}

//// const_and_volatile
__kernel void k(const __global float * const restrict a, volatile __global float *o, const int n, __const float f)
{
  const int i = get_global_id(0);
  float x = a[i];
  volatile float y = x;
  o[i] = y * n + f;
}

//// plain_qualifiers
kernel void k(global const float *a, global float *o, constant float *c)
{
  local float t[32];
  private int i = get_local_id(0);
  t[i] = a[i] * c[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  o[i] = t[i ^ 1];
}

//// pointer_arithmetic
__kernel void k(__global const uchar *raw, __global float *o)
{
  int i = get_global_id(0);
  __global const float *p = (__global const float *)(raw + 4);
  p += i;
  float4 v;
  float *q = (float *)&v;
  q[0] = p[0];
  q[3] = *(p + 1);
  o[i] = v.x + v.w + (p - (__global const float *)raw);
}

//// array_of_arrays
void fill(float m[2][3], float x)
{
  for (int r = 0; r < 2; r++) for (int c = 0; c < 3; c++) m[r][c] = x + r * 3 + c;
}

__kernel void k(__global const float *a, __global float *o)
{
  int i = get_global_id(0);
  float m[2][3];
  fill(m, a[i]);
  float s = 0;
  for (int j = 0; j < 6; j++) s += m[j / 3][j % 3];
  o[i] = s;
}

//// members_like_swizzles
typedef struct {
  float lo, hi;
  int xy;
  float s01;
} range;
__kernel void k(__global const float *a, __global float *o)
{
  int i = get_global_id(0);
  range r;
  r.lo = a[i];
  r.hi = 2;
  r.xy = 3;
  r.s01 = 4;
  __private range *p = &r;
  o[i] = p->lo + r.hi * r.xy + r.s01;
}

//// prototypes
float twice(float);
int four(void);
__kernel void k(__global const float *a, __global float *o);
__kernel void k(__global const float *a, __global float *o)
{
  int i = get_global_id(0);
  o[i] = twice(a[i]) + four();
}

float twice(float x)
{
  return 2 * x;
}

int four(void)
{
  return 4;
}

//// ternary_vector_condition
__kernel void k(__global const float4 *a, __global const float4 *b, __global float4 *o)
{
  int i = get_global_id(0);
  int4 m = a[i] > 0.0f;
  float4 v = m ? a[i] : -a[i];
  v = a[i] > b[i] ? (v.x > 1 ? v : b[i]) : (float4)(7);
  float n = v.x > 0 ? v.y : 2;
  o[i] = v + n + (b[i].xy < 0.0f ? a[i].xy : 1.0f).xyxy;
}

//// pointers_of_other_types
void fill(uint *p, __global const char *c, int n)
{
  for (int i = 0; i < n; i++) p[i] = i + c[0];
}

int sum(int *p, int n)
{
  int s = 0;
  for (int i = 0; i < n; i++) s += p[i];
  return s;
}

__kernel void k(__global const uchar *a, __global int *o)
{
  int t[4];
  uint *q = t;
  void *v = t;
  int *w = v;
  const int *c;
  c = q;
  int i = get_global_id(0);
  fill(t, a, 3);
  t[3] = i;
  o[i] = sum(q, 4) + w[3] + c[0] + sum(c, 1);
}

//// enumeration_from_integer
typedef enum { RED, GREEN = 4, BLUE } colour;
enum side { LEFT, RIGHT } ;
int number(colour c, enum side s)
{
  return c * 10 + s;
}

__kernel void k(__global int *o)
{
  int i = get_global_id(0);
  colour c = i & 3;
  enum side s = 1;
  s++;
  c = c + BLUE;
  switch (c) {
    case BLUE: c = 100;
    break;
    default: s |= 8;
  }
  o[i] = number(c, s);
}

//// unroll_hint
__kernel void k(__global const int *a, __global int *o)
{
  int i = get_global_id(0);
  int s = 0;
  __attribute__((opencl_unroll_hint(2))) for (int j = 0; j < 6; j++) s += j * a[i];
  __attribute__((opencl_unroll_hint)) for (int j = 0; j < 2; j++) s++;
  o[i] = s;
}

//// ternary_pointer
__kernel void k(__global const float *a, __global float *o)
{
  int i = get_global_id(0);
  __global const float *p = i & 1 ? a : a + 32;
  const float x = i > 3 ? 1 : 2.5f, y = i ? 1 : 0;
  switch (i & 3) {
  case 0:
    p += 1;
    break;
  default: {
    __private const float z = i & 2 ? x : y;
    o[i] = p[i] + z;
    return;
  }
  }
  o[i] = p[i & 15] * x + y;
}

//// type_operators
__kernel void k(__global const float4 *a, __global float *o)
{
  int i = get_global_id(0);
  __typeof__(float4) v = a[i];
  __typeof__(v.x) x = v.x;
  x += 1;
  o[i] = x + v.w + vec_step(float4) + vec_step(int3) * 10 + vec_step(x) * 100 + sizeof(v);
}

//// jumps_over_initialisers
__kernel void k(__global const int *a, __global int *o)
{
  int i = get_global_id(0), s = 0;
  if (i & 1)
    goto end;
  int twice = 2 * a[i];
  s = twice + 1;
  switch (i & 2) {
  case 0:
    s += 5;
    int more = 7;
    s += more;
    break;
  case 2:
    more = 3;
    s -= more;
  }
end:
  o[i] = s;
}

//// pointers_to_pointers
void advance(__global const float **p, int n) { *p += n; }
__kernel void k(__global const float *a, __global float *o)
{
  __local float t[32], u[32];
  int i = get_local_id(0);
  __global const float *p = a;
  __local float *rows[2];
  float x, y, *both[2] = {&x, &y};
  advance(&p, i);
  rows[0] = t;
  rows[1] = u;
  rows[i & 1][i] = *p;
  *both[0] = 3;
  *both[1] = i;
  barrier(CLK_LOCAL_MEM_FENCE);
  o[i] = rows[i & 1][i] + x + y;
}

//// anonymous_members
typedef struct {
  union {
    float f;
    uint u;
  };
  uint low, high;
} cell;
__kernel void k(__global const float *a, __global float *o)
{
  int i = get_global_id(0);
  cell c;
  c.f = a[i];
  c.u ^= 0x80000000u;
  c.low = i & 7;
  c.high = i;
  o[i] = c.f + c.low + 10 * c.high;
}

//// array_initialisers
__constant int t[3] = {[0] = 5, [1] = 6, [2] = 7};
__kernel void k(__global int *o)
{
  int i = get_global_id(0);
  int m[2][2] = {{1, 2}, {3}}, n[] = {4, i}, z[3] = {0};
  float4 v[2] = {{1, 2, 3, 4}, (float4)(i)};
  o[i] = m[i & 1][0] + m[1][1] + n[1] + z[2] + (int)v[i & 1].y + t[i % 3];
}
