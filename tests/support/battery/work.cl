// Work-items, barriers, fences and atomic functions.

//// index_functions
__kernel void k(__global int *o)
{
  int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  __global int *p = o + 14 * ((z * 6 + y) * 8 + x);
  p[0] = x;
  p[1] = y;
  p[2] = z;
  p[3] = get_local_id(0);
  p[4] = get_local_id(1);
  p[5] = get_local_id(2);
  p[6] = get_group_id(0);
  p[7] = get_group_id(1);
  p[8] = get_group_id(2);
  p[9] = get_global_size(0);
  p[10] = get_global_size(1);
  p[11] = get_local_size(1);
  p[12] = get_num_groups(0);
  p[13] = get_num_groups(1) + get_global_offset(0);
}

//// index_beyond_three
__kernel void k(__global int *o)
{
  o[get_global_id(0)] = get_global_id(3) + get_local_size(4) + get_num_groups(5) * 2 + get_work_dim() * 0;
}

//// index_by_variable
__kernel void k(__global int *o)
{
  int n = 0;
  for (uint d = 0; d < 2; d++) n = n * 100 + get_local_id(d);
  o[get_global_id(1) * 8 + get_global_id(0)] = n;
}

//// required_work_group
#define W 16
__attribute__((reqd_work_group_size(W * 2, 1, 1)))
__kernel void k(__global int *o)
{
  o[get_global_id(0)] = get_local_size(0) * 100 + get_local_id(0);
}

//// barrier_loop
__kernel void k(__global const int *a, __global int *o)
{
  __local int t[96];
  int i = get_local_id(0);
  t[i] = a[i];
  for (int s = 1; s < 96; s *= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    int v = i >= s ? t[i - s] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    t[i] += v;
  }

  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  o[i] = t[i];
}

//// fences
__kernel void k(__global int *o)
{
  int i = get_global_id(0);
  o[i] = i;
  mem_fence(CLK_GLOBAL_MEM_FENCE);
  read_mem_fence(CLK_LOCAL_MEM_FENCE);
  write_mem_fence(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
  o[i] += 1;
}

//// atomic_arithmetic
__kernel void k(__global const int *a, volatile __global int *o)
{
  int i = get_global_id(0);
  int v = a[i];
  atomic_add(o, v);
  atomic_sub(o + 1, v);
  atomic_inc(o + 2);
  atomic_dec(o + 3);
  atomic_min(o + 4, v);
  atomic_max(o + 5, v);
  atomic_and(o + 6, v | 0xff);
  atomic_or(o + 7, v & 0xff0);
  atomic_xor(o + 8, v);
}

//// atomic_unsigned
__kernel void k(__global const uint *a, __global uint *o)
{
  int i = get_global_id(0);
  atomic_min(o, a[i]);
  atomic_max(&o[1], a[i]);
  atomic_add(&o[2], 3u);
}

//// atomic_old_value
__kernel void k(__global int *n, __global int *o)
{
  int i = atomic_inc(n);
  o[i] = 7;
}

//// atomic_exchange
__kernel void k(__global float *f, __global int *n, __global float *o)
{
  if (get_global_id(0) == 0) {
    o[0] = atomic_xchg(f, 2.5f);
    o[1] = atomic_cmpxchg(n, 3, 9);
    o[2] = atomic_cmpxchg(n, 3, 11);
  }
}

//// atomic_float_loop
void add(volatile __global float *p, float v)
{
  union {
    uint u;
    float f;
  } old, sum;
  do {
    old.f = *p;
    sum.f = old.f + v;
  } while (atomic_cmpxchg((volatile __global uint *)p, old.u, sum.u) != old.u);
}

__kernel void k(__global const float *a, __global float *o)
{
  add(o, a[get_global_id(0)]);
}

//// atomic_long
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
__kernel void k(__global const long *a, __global long *o)
{
  int i = get_global_id(0);
  atom_add(o, a[i]);
  atom_max(o + 1, a[i]);
  atom_inc(o + 2);
  atom_xor(o + 3, a[i]);
}

//// sub_groups
__kernel void k(__global const int *a, __global int *o)
{
  int i = get_local_id(0), x = a[get_global_id(0)], n = get_sub_group_size(), at = get_sub_group_local_id();
  int s = sub_group_reduce_add(x & 15) + sub_group_scan_inclusive_max(x & 63) + sub_group_scan_exclusive_add(x & 7) + at - at;
  s += sub_group_broadcast(x & 31, 3) + 1000 * sub_group_all(x & 1) + 2000 * sub_group_any(x == 5) + sub_group_shuffle_xor(i, 1);
  sub_group_barrier(CLK_LOCAL_MEM_FENCE);
  o[get_global_id(0)] = s + 100000 * get_num_sub_groups() + 10000 * get_sub_group_id() + (n - n % 4) * 1000000;
}

//// work_group_functions
__kernel void k(__global const int *a, __global const float *b, __global int *o, __global float *p)
{
  int x = a[get_global_id(0)];
  o[get_global_id(0)] = work_group_reduce_add(x & 15) + 1000 * work_group_scan_exclusive_add(x & 3) + 1000000 * work_group_all(x | 1)
                      + 2000000 * work_group_any(x & 1) + work_group_broadcast(x & 31, 5);
  p[get_global_id(0)] = work_group_reduce_max(b[get_global_id(0)]) + work_group_scan_inclusive_min(b[get_global_id(0)]);
}

//// explicit_atomics
__kernel void k(__global const int *a, __global atomic_int *o, __global atomic_uint *u, __global float *f)
{
  __local atomic_int n;
  int i = get_global_id(0), x = a[i];
  if (get_local_id(0) == 0) atomic_store_explicit(&n, 0, memory_order_relaxed, memory_scope_work_group);
  work_group_barrier(CLK_LOCAL_MEM_FENCE, memory_scope_work_group);
  atomic_fetch_add_explicit(&n, x & 3, memory_order_relaxed, memory_scope_work_group);
  work_group_barrier(CLK_LOCAL_MEM_FENCE);
  atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_device);
  if (get_local_id(0) == 0)
    atomic_fetch_add_explicit(o, atomic_load_explicit(&n, memory_order_acquire, memory_scope_work_group), memory_order_acq_rel,
                              memory_scope_device);
  atomic_fetch_sub_explicit(o + 1, x, memory_order_relaxed, memory_scope_device);
  atomic_fetch_min_explicit(o + 2, x, memory_order_seq_cst, memory_scope_device);
  atomic_fetch_max_explicit(o + 3, x, memory_order_release, memory_scope_device);
  atomic_fetch_and_explicit(u, x | 0xff, memory_order_relaxed, memory_scope_device);
  atomic_fetch_or_explicit(u + 1, x & 0xff0, memory_order_relaxed, memory_scope_device);
  atomic_fetch_xor_explicit(u + 2, x, memory_order_relaxed, memory_scope_device);
  if (i == 0) {
    int expected = 3, other = 5;
    f[0] = atomic_compare_exchange_strong_explicit(o + 4, &expected, 9, memory_order_acq_rel, memory_order_relaxed, memory_scope_device);
    f[1] = atomic_compare_exchange_strong_explicit(o + 4, &other, 7, memory_order_acq_rel, memory_order_relaxed, memory_scope_device);
    f[2] = other + 10 * atomic_exchange_explicit(o + 5, 4, memory_order_seq_cst, memory_scope_device);
    f[3] = __OPENCL_C_VERSION__;
  }
}

//// ballots
__kernel void k(__global const int *a, __global int *o)
{
  int i = get_global_id(0), x = a[i];
  uchar c = x;
  uint4 b = sub_group_ballot(x > 0);
  __global int *p = o + 16 * i;
  p[0] = b.x;
  p[1] = sub_group_ballot_bit_count(b);
  p[2] = sub_group_elect();
  p[3] = sub_group_broadcast_first(x);
  p[4] = sub_group_non_uniform_broadcast(x, 3u);
  p[5] = sub_group_ballot_exclusive_scan(b);
  p[6] = sub_group_ballot_inclusive_scan(b);
  p[7] = sub_group_ballot_find_lsb(b);
  p[8] = sub_group_inverse_ballot(b);
  p[9] = sub_group_clustered_reduce_add(x & 31, 8u);
  p[10] = sub_group_clustered_reduce_max(x, 16u);
  p[11] = sub_group_rotate(x, 1);
  p[12] = sub_group_reduce_add(x > 0);
  p[13] = work_group_reduce_add(c);
  p[14] = work_group_scan_exclusive_add(x > 0);
  p[15] = intel_sub_group_shuffle_down(x, i, 3u);
}
