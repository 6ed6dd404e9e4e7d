// Address spaces: local variables and arguments, constants, pointers to helper functions, structures.

//// local_array
__kernel void k(__global const float *a, __global float *o)
{
  __local float t[64];
  int i = get_local_id(0);
  t[i] = a[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  o[i] = t[63 - i];
}

//// local_2d_padded
#define T 8
__kernel __attribute__((reqd_work_group_size(T, T, 1))) void k(__global const float *a, __global float *o)
{
  __local float t[T][T + 1];
  int x = get_local_id(0), y = get_local_id(1);
  t[y][x] = a[y * T + x];
  barrier(CLK_LOCAL_MEM_FENCE);
  o[y * T + x] = t[x][y];
}

//// local_scalar
__kernel void k(__global int *o)
{
  __local int n, m;
  if (get_local_id(0) == 0) {
    n = 5;
    m = get_group_id(0);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  o[get_global_id(0)] = n + m;
}

//// local_vectors
__kernel void k(__global const float4 *a, __global float4 *o)
{
  __local float4 t[16];
  int i = get_local_id(0);
  t[i] = a[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  o[i] = t[15 - i];
}

//// local_cast
__kernel void k(__global const float4 *a, __global float *o)
{
  __local float t[64];
  int i = get_local_id(0);
  ((__local float4 *)t)[i] = a[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  __local const float *p = &t[4 * i];
  for (int j = 0; j < 4; j++, p++) o[j * 16 + i] = *p;
}

//// local_arguments
__kernel void k(__global const float *a, __local float *s, __global float *o, __local double *d, __local char *c)
{
  int i = get_local_id(0);
  s[i] = a[i];
  d[i] = 2.0 * a[i];
  c[i] = i;
  barrier(CLK_LOCAL_MEM_FENCE);
  o[i] = s[31 - i] + d[(i + 1) & 31] + c[i ^ 1];
}

//// local_argument_vectors
__kernel void k(__global const float *a, __global float *o, __local float4 *s)
{
  int i = get_local_id(0);
  __local float *f = (__local float *)s;
  f[2 * i] = a[2 * i];
  f[2 * i + 1] = a[2 * i + 1];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (i < 16) {
    float4 v = s[15 - i];
    vstore4(v, i, o);
  }
}

//// local_array_argument
__kernel void k(__global const float *a, __global float *o, __local float (*t)[17])
{
  int x = get_local_id(0), y = get_local_id(1);
  t[y][x] = a[y * 16 + x];
  barrier(CLK_LOCAL_MEM_FENCE);
  o[y * 16 + x] = t[y ^ 1][15 - x];
}

//// local_struct
typedef struct {
  float v;
  int i;
} pair;
__kernel void k(__global const float *a, __global float *o)
{
  __local pair t[32];
  int i = get_local_id(0);
  t[i].v = a[i];
  t[i].i = i;
  barrier(CLK_LOCAL_MEM_FENCE);
  pair p = t[31 - i];
  o[i] = p.v + p.i;
}

//// local_in_two_kernels
__kernel void other(__global float *o)
{
  __local float t[8];
  t[get_local_id(0)] = 1;
  barrier(1);
  o[0] = t[1];
}

__kernel void k(__global const float *a, __global float *o)
{
  __local float t[32];
  int i = get_local_id(0);
  t[i] = a[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  o[i] = t[i ^ 3];
}

//// constant_table
__constant float c[4] = {1.5f, -2.0f, 3.25f, 8};
__constant int n = 3;
__kernel void k(__global const float *a, __global float *o)
{
  int i = get_global_id(0);
  o[i] = a[i] * c[i & n];
}

//// constant_2d
constant const int c[2][3] = {{1, 2, 3}, {4, 5, 6}};
__kernel void k(global int *o)
{
  int i = get_global_id(0);
  o[i] = c[i & 1][i % 3];
}

//// constant_argument
float at(__constant float *c, int i)
{
  return c[i & 3];
}

__kernel void k(__constant float *c, __global float *o, __constant const int *d)
{
  int i = get_global_id(0);
  __constant float *p = c + 4;
  o[i] = at(p, i) + d[i];
}

//// constant_in_function
__kernel void k(__global float *o)
{
  __constant float c[3] = {1, 4, 9};
  int i = get_global_id(0);
  o[i] = c[i % 3];
}

//// constant_structs
typedef struct {
  float4 v;
  int n;
} row;
__constant row t[2] = {{(float4)(1, 2, 3, 4), 5}, {(float4)(6), 7}};
__kernel void k(__global float *o)
{
  int i = get_global_id(0);
  o[i] = t[i & 1].v.z * t[i & 1].n;
}

//// helper_pointers
float sum(__local const float *l, __global const float *restrict g, __private float *p, int n)
{
  float s = 0;
  for (int i = 0; i < n; i++) s += l[i] * g[i] + p[i & 1];
  return s;
}

__kernel void k(__global const float *a, __global float *o)
{
  __local float t[32];
  float p[2];
  int i = get_local_id(0);
  t[i] = i;
  p[0] = 1;
  p[1] = 2;
  barrier(CLK_LOCAL_MEM_FENCE);
  o[i] = sum(t, a + i, p, 4);
}

//// helper_writes
void put(__global float *o, int i, float v);
void put(__global float *o, int i, float v)
{
  o[i] = v;
}

static inline void swap(float *a, float *b)
{
  float t = *a;
  *a = *b;
  *b = t;
}

__kernel void k(__global const float *a, __global float *o)
{
  int i = get_global_id(0);
  float x = a[i], y = a[i + 32];
  swap(&x, &y);
  put(o, i, x - y);
}

//// kernel_calls_kernel
__kernel void inner(__global const float *a, __global float *o, float f)
{
  int i = get_global_id(0);
  o[i] = a[i] * f;
}

__kernel void k(__global const float *a, __global float *o)
{
  inner(a, o, 3.0f);
  o[get_global_id(0)] += 1;
}

//// aligned_attribute
__kernel void k(__global const float *a, __global float *o)
{
  __local float t[32] __attribute__((aligned(64)));
  __attribute__((aligned(16))) float r[4];
  int i = get_local_id(0);
  t[i] = a[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  r[i & 3] = t[31 - i];
  o[i] = r[i & 3];
}

//// packed_struct
typedef struct __attribute__((packed))
{
  char c;
  int n;
} small;
__kernel void k(__global const small *a, __global int *o)
{
  int i = get_global_id(0);
  o[i] = a[i].n + a[i].c + sizeof(small);
}

//// struct_argument
typedef struct {
  int n;
  float f;
  float4 v;
} params;
__kernel void k(params p, __global float *o)
{
  int i = get_global_id(0);
  o[i] = p.n * i + p.f + p.v.y;
}

//// scalar_arguments
__kernel void k(char a, ushort b, uint c, long d, float e, double f, __global double *o)
{
  o[get_global_id(0)] = f + a + b + c + d + e;
}

//// atomics_local
__kernel void k(__global const int *a, __global int *o)
{
  __local int h[8];
  int i = get_local_id(0);
  if (i < 8) h[i] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_inc(&h[a[i] & 7]);
  atomic_add(h + (i & 7), 10);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (i < 8) o[i] = h[i];
}

//// async_copy
__kernel void k(__global const float *a, __global float *o)
{
  __local float t[64];
  __local float s[8];
  event_t e = async_work_group_copy(t, a, 64, 0);
  e = async_work_group_strided_copy(s, a, 8, 8, e);
  wait_group_events(1, &e);
  int i = get_local_id(0);
  t[i] = t[i] + s[i & 7];
  barrier(CLK_LOCAL_MEM_FENCE);
  e = async_work_group_copy(o, (__local const float *)t, 64, 0);
  wait_group_events(1, &e);
}

//// size_t_index
__kernel void k(__global const float *a, __global float *o, ulong n)
{
  size_t i = get_global_id(0);
  const size_t last = n - 1;
  o[last - i] = a[i];
}

//// double_constants
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
__constant double fil[4] = {8.4334247333529341e-07, -1.29e-05, 0.99404156978340035, 0.5};
__kernel void k(__global const double *a, __global double *o)
{
  int i = get_global_id(0);
  double s = 0.0;
#pragma unroll
  for (int j = 0; j < 4; j++) s = fma(fil[j], a[i + j], s);
  o[i] = s;
}
