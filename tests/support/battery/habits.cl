// Habits of public programs that need more than their words: scalars beside vectors, pointers that move, names used twice.

//// scalars_in_place_of_vectors
__kernel void k(__global const float4 *a, __global float *o, __global float4 *p)
{
  int i = get_global_id(0);
  float4 v = a[i];
  o[i] = dot(v, 2.0f) + dot(0.5f, v) + distance(v, 1.0f) + distance(0.0f, v) + smoothstep(0, 2, v.x) + isless(0, v.y) + distance(1, v.z);
  p[i] = select(0.0f, v, v < 1.0f) + smoothstep(0.0f, 2.0f, v) - convert_float4(isgreater(0.5f, v));
}

//// parameters_that_move
float at(__global float *p, uint offset)
{
  p = (__global void *)((__global char *)p + offset);
  return *p;
}
__kernel void k(__global float *a, uint offset, __global float *o)
{
  a = (__global void *)((__global char *)a + offset);
  o = (__global void *)(o + 1);
  o[get_global_id(0)] = a[get_global_id(0)] + at(a, 8);
}

//// chained_choices
float sign_of(float a, float b) { return a > b ? 1.0f : a < b ? -1.0f : 0.0f; }
__kernel void k(__global const float4 *a, __global const float4 *b, __global float4 *o)
{
  int i = get_global_id(0);
  o[i] = a[i] > b[i] ? a[i] : b[i] > 0.0f ? b[i] * 2 : (float4)(7);
  o[i].x += sign_of(a[i].y, b[i].y);
}

//// null_in_choices
typedef struct {
  __global const float4 *data;
} span;
__kernel void k(__global const float4 *a, __global float4 *o)
{
  int i = get_global_id(0);
  __global const float4 *p = a[i].x > 0 ? a + i : NULL;
  span s = {a != 0 ? a : 0};
  float x = a[i].y > 0 ? a[i].y : 0;
  int4 m = a[i] < 0.0f ? 0 : convert_int4(a[i] * 8);
  o[i] = (p ? *p : s.data[0]) + x + convert_float4(m);
}

//// constants_of_constants
static const __constant float TOP = 255.0f, SCALE = 1.0f / 5;
__constant float RATIO = TOP / 51, TABLE[] = {1, 2, TOP};
constant float4 BASE = (float4)(1, 2, 3, 4), TWICE = BASE * SCALE * 10;
__constant float MORE[2] = {RATIO + SCALE, 8};
__constant float ENDLESS = 1.0f / 0.0f;
__kernel void k(__global float *o)
{
  int i = get_global_id(0);
  o[i] = MORE[i & 1] + TABLE[i % 3] + isinf(ENDLESS) + TWICE.w;
}

//// members_and_swizzles_of_one_name
typedef struct {
  float2 xy;
  float z;
} place;
typedef struct {
  uint lo, hi;
  place at;
} wide;
place placed(float4 v)
{
  place p = {.z = v.z, .xy = v.xy};
  return p;
}
__kernel void k(__global const float4 *a, __global float4 *o, __global wide *w)
{
  int i = get_global_id(0);
  float4 v = a[i];
  wide t = {.lo = i, .hi = i + 1}, *p = &t;
  t.at = placed(v);
  v.xy = t.at.xy.yx;
  v.xy += p->at.xy * 2;
  p->hi++;
  p->at.xy.x = 3;
  v.lo.y += (float)p->hi + t.lo;
  o[i] = (float4)(v.xy, placed(v.wzyx).xy);
  o[i].hi += (&t)->at.xy;
  w[i] = t;
}

//// bits_of_another_type
__kernel void k(__global const float4 *a, __global int4 *o) { o[get_global_id(0)] = __builtin_astype(a[get_global_id(0)] + 1, int4); }

//// half_vectors
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
__kernel void k(__global const half4 *a, __global half4 *o)
{
  int i = get_global_id(0);
  half4 v = fabs(a[i]) + sqrt(fabs(a[i]));
  o[i] = clamp(v, (half)0.5f, (half)1.5f) + fmax(a[i], (half)0);
  o[i].x = fabs(a[i].x) + ldexp(a[i].y, 2);
}

//// image_at_any_integer
__kernel void k(__read_only image1d_buffer_t image, uint first, __global float4 *o)
{
  size_t i = get_global_id(0);
  o[i] = read_imagef(image, i & 7) + read_imagef(image, first) + read_imagef(image, (uchar)3);
}

//// pointers_without_casts
typedef struct {
  __global int *to;
  __global const int *from[2];
  int n;
} work;
__global int *behind(__global const int *p, int n) { return p + n; }
int first(__private uint *p) { return p[0]; }
int sum(__global int *p, int n)
{
  int s = 0;
  for (__global const int *end = p + n, *q = p; q < end; q++) s += *q;
  return s;
}
__kernel void k(__global const int *a, __global int *o)
{
  int i = get_global_id(0);
  work w = {o, {a, a + 1}, 2}, *v = &w, x = {.n = 3, .to = a};
  __global int *p = a, *q, *both[2] = {a, a + 2};
  __global uchar *bytes = (__global uchar *)(a + i);
  q = p = behind(a, 1);
  v->to = a;
  w.from[1] = o;
  v->from[1] = both[1];
  uint f = 0x3F800000;
  int *bits = &f;
  size_t where = (size_t)p;
  __private uint u = *bits + (where != (size_t)q) + ((int)&((work *)0)->to);
  uint four = 7;
  uchar *one = (uchar *)&four;
  *(uchar4 *)one = (uchar4)(0);
  o[i] = p[0] + q[1] + w.to[2] + v->from[1][i] + bytes[0] + first(&u) + sum(a, w.n) + x.to[x.n] + four;
}

//// names_of_others
#define prog(x) ((x) + 1)
typedef struct {
  int threadIdx, y0;
} entry;
struct vec {
  int x, dim3;
};
enum { warpSize = 7 };
__constant int ocl[2] = {1, 2};
int assert(int clock) { return clock * 2; }
int __popc(int half3) { return half3 + 5; }
static entry oclt(entry swizzle, struct vec shape)
{
  swizzle.threadIdx += shape.dim3;
  swizzle.y0 += shape.x;
  return swizzle;
}
__kernel void clock64(__global int *o) { o[0] = 1; }
__kernel void k(__global int *blockIdx)
{
  int atomicAdd = get_global_id(0), min_ = 1;
  entry std = {atomicAdd, 2};
  struct vec portatile_entry = {3, 4};
  if (atomicAdd > 5) goto gridDim;
  std.y0++;
gridDim:
  std = oclt(std, portatile_entry);
  blockIdx[atomicAdd] = prog(std.threadIdx) + std.y0 + warpSize + ocl[atomicAdd & 1] + assert(1) + __popc(min_);
}

//// structures_as_results
struct pair {
  int x, y;
} both(int n)
{
  struct pair p = {n, 2 * n};
  return p;
}
static struct {
  int z;
} *other(int *p)
{
  void *q = p;
  return q;
}
__kernel void k(__global int *o)
{
  int i = get_global_id(0);
  struct pair p = both(i);
  o[i] = p.x + p.y + both(1).y + other(&i)->z + ((union { float f; int u; }){.f = 1.0f}).u;
}

//// types_inside_types
typedef struct {
  struct inner {
    enum kind { NONE, SOME = 4, MORE } kind;
    int n;
  } one, two[2];
  union bits {
    float f;
    uint u;
  } bits;
  enum { LEFT = 10, RIGHT } side;
} outer;
int twice(struct inner v) { return 2 * v.n + v.kind; }
__kernel void k(__global int *o)
{
  int i = get_global_id(0);
  outer v;
  struct inner a = {SOME, i};
  union bits b;
  enum kind kind = i & 1;
  b.u = 3;
  v.two[1] = a;
  v.bits = b;
  v.side = RIGHT;
  o[i] = twice(v.two[1]) + v.bits.u + v.side + MORE + LEFT + kind;
}

//// numbers_beside_signs
#define HEX 0xE
#define LOW -x
#define NEGATIVE(a) -a
#define PLUS_ONE(a) a+1
#define LONG_W\
ORD 100
#define MINUS-3
__kernel void k(__global int *o)
{
  int x = get_global_id(0);
  o[x] = HEX+1 + PLUS_ONE(0x2e) + (x-LOW) + NEGATIVE(-x) + LONG_WORD + MINUS + (int)(1.E1f+2.e+0f) + (x &LOW);
}

//// older_designators
typedef struct {
  int x;
  float f;
  float2 v;
} item;
__kernel void k(__global float *o)
{
  int i = get_global_id(0);
  item a = {f : 2.0f, x : i}, b[2] = {[1] = {v : (float2)(1, 2)}};
  o[i] = a.x + a.f + b[1].v.y + b[0].f;
}

//// jumps_over_vectors
typedef struct {
  float4 v;
  int n;
} item;
__kernel void k(__global float *o)
{
  int i = get_global_id(0);
  float s = 0;
  if (i > 20) goto end;
  const float4 a = (float4)(i), b = a * 2.0f;
  item p = {a, 3}, q = p;
  float2 c = {1, 2}, d;
  d = c;
  s = b.x + q.v.y + p.n + d.y;
  switch (i & 3) {
    case 0:;
      float4 e = (float4)(100);
      s += e.x;
      break;
    case 1:
      s += 7;
    default:
      e = (float4)(3);
      s += e.y;
  }
end:
  o[i] = s;
}

//// words_of_gnu
__extension__ typedef unsigned long wide;
_Static_assert(sizeof(wide) == 8, "wide");
__inline__ int part(__attribute__((unused)) int n, __const__ int *p __attribute__((unused))) { return n; }
__kernel void k(__global int *o __attribute__((unused)), __attribute__((unused)) int n
#line 50
                ,
#line 60
                uint m)
{
  __volatile__ int i = get_global_id(0);
  __signed__ int j = i;
  int local_copy[2];
  __builtin_memset(local_copy, 0, sizeof(local_copy));
  __builtin_memcpy(local_copy, &j, 4);
  uint4 v = __builtin_shufflevector((uint4)(1, 2, 3, 4), (uint4)(m), 3, 0, 4, 1);
  float2 f = __builtin_convertvector((int2)(n, 2), float2);
  o[j] = (j ?: n) + part(j, &n) + local_copy[0] + (int)(v.x * 1000 + v.y * 100 + v.z * 10 + v.w) + (int)(f.x + f.y) +
         __builtin_popcount(m) + __builtin_clz(m) + __builtin_ctz(m) + __builtin_ffs(m) + (int)__builtin_bswap32(m << 24);
}
