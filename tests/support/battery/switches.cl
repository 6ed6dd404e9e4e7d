// The device switches that both preludes define: one text must compute the same where they exist and where they fall back.

//// switch_back_end
__kernel void k(__global int *o)
{
  int n = 0;
#if PORTATILE_OPENCL
  n += 1;
#endif
#ifdef PORTATILE_CUDA
  n += 1;
#endif
#if PORTATILE_NVIDIA && !(PORTATILE_CUDA || defined(__NV_CL_C_VERSION))
  n += 5;
#endif
  o[get_global_id(0)] = n;
}

//// ldg
__kernel void k(__global const float4 *restrict a, __global const float *restrict b, __global const double2 *d,
    __global const int2 *e, __global float4 *o)
{
  int i = get_global_id(0);
  float4 v = LDG(a + i);
  int2 n = LDG(&e[i]);
  v.x += LDG(&b[i]);
  v.y += (float)LDG(d + i).y;
  v.z += n.x + n.y;
  o[i] = v;
}

//// lds
__kernel void k(__global const float4 *a, __global float4 *o)
{
  __local float4 t[32];
  __local double d[32];
  __local int2 n[32];
  int i = get_local_id(0);
  t[i] = a[i];
  d[i] = i;
  n[i] = (int2)(i, 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  float4 v = LDS(&t[31 - i]);
  v.x += (float)LDS(d + (i ^ 1));
  int2 m = LDS(&n[i ^ 2]);
  v.y += m.x + m.y;
  v.z += LDS((__local const float *)t + i);
  o[i] = v;
}

//// copy_async
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void k(__global const float *a, __global float4 *o)
{
  __local float4 t[2][32];
  __local float s[32];
  __local float2 p[32];
  int i = get_local_id(0);
  COPY_ASYNC_16(&t[0][i], a + 4 * i);
  COPY_ASYNC_COMMIT();
  COPY_ASYNC_16(&t[1][i], a + 128 + 4 * i);
  COPY_ASYNC_4(s + i, a + i);
  COPY_ASYNC_8(&p[i], a + 2 * i);
  COPY_ASYNC_COMMIT();
  COPY_ASYNC_WAIT(1);
  barrier(CLK_LOCAL_MEM_FENCE);
  float4 v = t[0][31 - i];
  COPY_ASYNC_WAIT(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  o[i] = v + t[1][31 - i] + (float4)(s[i ^ 1], p[i ^ 1], 0);
}

//// copy_async_if
__kernel void k(__global const float *a, __global float4 *o, int n)
{
  __local float4 t[32];
  __local float s[32];
  __local float2 p[32];
  int i = get_local_id(0);
  t[i] = (float4)(9);
  s[i] = 9;
  p[i] = (float2)(9);
  barrier(CLK_LOCAL_MEM_FENCE);
  COPY_ASYNC_16_IF(&t[i], a + 4 * i, i < n);
  if (i >= 0) COPY_ASYNC_4_IF(s + i, a + i, i > n);
  else s[i] = 1;
  COPY_ASYNC_8_IF(&p[i], a + 2 * i, i != n);
  COPY_ASYNC_COMMIT();
  COPY_ASYNC_WAIT(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  int j = 31 - i;
  o[i] = t[j] + (float4)(s[j], p[j], 0);
}

//// shuffles
__kernel void k(__global const float *a, __global const double *d, __global float *o)
{
  int i = get_local_id(0);
  float x = a[i], r;
#ifdef HAVE_SHUFFLE
  r = SHUFFLE_XOR(x, 5) + SHUFFLE(i, 3) + (float)SHUFFLE(d[i], i ^ 1);
  float y = SHUFFLE_DOWN(x, 2), z = SHUFFLE_UP(x, 4);
  r += (i < 30 ? y : 0) + (i >= 4 ? z : 0);
#else
  r = a[i ^ 5] + 3 + (float)d[i ^ 1];
  r += (i < 30 ? a[i + 2] : 0) + (i >= 4 ? a[i - 4] : 0);
#endif
  o[i] = r;
}

//// rsqrt_approx
__kernel void k(__global const float *a, __global float *o)
{
  int i = get_global_id(0);
  o[i] = RSQRT_APPROX(a[i] * a[i] + 1.0f);
}

//// inline_ptx
__kernel void k(__global const float *a, __global float *o)
{
  __local float t[32];
  int i = get_local_id(0);
  t[i] = a[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  float x;
#if PORTATILE_NVIDIA
  uint at = LOCAL_ADDRESS(&t[i ^ 1]);
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(at) : "memory");
#else
  x = t[i ^ 1];
#endif
  o[i] = x;
}

//// min_groups
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) MIN_GROUPS(4) void k(__global const float *a,
    __global float *o)
{
  int i = get_global_id(0);
  o[i] = a[i] + 1;
}
