/* Hopper's matrix products and copies from text that is translated to CUDA: barriers that count bytes, tensor maps made by the kernel,
   copies by the TMA, products of a warp group straight from local memory. Needs the architecture sm_90a.

   Addresses of local memory are those of LOCAL_ADDRESS.

   mbarrier_init(b, count)               8 bytes at b: a phase ends when `count` have arrived and all expected bytes are there
   mbarrier_init_done()                  the TMA sees what was initialised; a barrier of the group must follow
   mbarrier_expect(b, bytes)             arrives, and so many bytes are to come
   mbarrier_arrive(b)
   mbarrier_arrive_copied(b)             arrives when the asynchronous copies that this work-item began before are there
   mbarrier_wait(b, parity)              until the phase of this parity, 0 at first, has ended
   tensor_map(space, map, base, bytes, columns, rows, pitch, wide, high)
                                         a map in global memory of 128 bytes at `map`, aligned to 128: elements of `bytes` 1, 2 or 4, `rows`
                                         of `columns`, `pitch` bytes apart (a multiple of 16; base too), copied in boxes of `high` rows of `wide`
                                         elements, 128 bytes. `space`: 128 bytes of local memory, aligned to 128. All 32 work-items of a
                                         warp call it, and the warp may use the map from then on
   tensor_copy(to, map, column, row, b)  starts the copy of a box to local memory, aligned to 1024, whose bytes count for barrier b; what
                                         lies outside of the operand is zeros. Row r of the box lies 128 r bytes on, its 16-byte chunks as
                                         MATRIX_AT says
   tensor_map_t                          of a kernel's parameter: a map that the host made
   TENSOR_AT(map, place)                 the address, of type tensor_at_t, of the kernel's first or second such parameter: `place` is 0 or 1
   tensor_copy_by(to, map, column, row, b)    tensor_copy by such a map; tensor_copy_by_3d(to, map, column, row, plane, b) by one of a stack of
                                         matrices; tensor_prefetch(map) has it fetched
   tensor_copy_to_all(to, map, column, row, b, groups)    the same to every group of a cluster whose bit is set in `groups`, at the same
                                         address of each, and for its barrier; tensor_copy_by_to_all, tensor_copy_by_3d_to_all
   mbarrier_arrive_at(b, rank)           arrives at the barrier of the cluster's group of this rank; what was written before need not
                                         be seen there, for which all memory would have to be waited for
   cluster_rank(), cluster_barrier()     a group's place in its cluster; all work-items of a cluster that have not ended wait for each other,
                                         and see what mbarrier_init made of each other's barriers, but nothing else that was written
   store_fragment(to, a, b, c, d)        16 x 16 elements of 16 bits to rows of local memory: a and b are rows 0 .. 7 and 8 .. 15 of the first
                                         eight columns, two neighbours to a work-item as the products have them, c and d of the others.
                                         Work-item l gives the address of row l % 16, columns 8 (l / 16) .., aligned to 16
   wgmma_operand(address, leading, stride)    how a product finds its tile: along k, `stride` is from 8 rows to the next; across k, from 8
                                         steps of k to the next, and `leading` from 64 elements across to the next
   WARP_GROUP_BARRIER(group)             the work-items of a warp group wait for each other
   group_arrive(items), group_wait(items)     some sub-groups tell others that wait for it, `items` work-items of both in all, that they came
   turn_over(group), turn_wait(group)    one of two warp groups tells the other, 0 or 1, that it may go on, which waits for that
   wgmma_fence(), wgmma_commit()         before products and after them
   wgmma_wait<n>()                       until at most n committed groups of products are under way: WGMMA_WAIT(n) in kernel text
   warp_registers_less<n>(), warp_registers_more<n>()    a warp group keeps n registers of a work-item and gives the others back, which other warp
                                         groups take: WARP_REGISTERS_LESS(n), WARP_REGISTERS_MORE(n) in kernel text
*/
namespace ocl {
INLINE void mbarrier_init(uint b, uint count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(b), "r"(count) : "memory"); }
INLINE void mbarrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
INLINE void mbarrier_expect(uint b, uint bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(bytes) : "memory");
}
INLINE void mbarrier_arrive(uint b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(b) : "memory"); }
INLINE void mbarrier_arrive_copied(uint b) { asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(b) : "memory"); }
INLINE void mbarrier_wait(uint b, uint parity) {
  uint done;
  do
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(b), "r"(parity) : "memory");
  while (!done);
}
INLINE void portatile_warp_barrier() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
INLINE void group_arrive(uint items) { asm volatile("bar.arrive 3, %0;" :: "r"(items) : "memory"); }
INLINE void group_wait(uint items) { asm volatile("bar.sync 3, %0;" :: "r"(items) : "memory"); }
INLINE void turn_over(uint group) { asm volatile("bar.arrive %0, 256;" :: "r"(group + 4) : "memory"); }
INLINE void turn_wait(uint group) { asm volatile("bar.sync %0, 256;" :: "r"(group + 4) : "memory"); }
INLINE void portatile_warp_group_barrier(int group) { asm volatile("bar.sync %0, 128;" :: "r"(group + 1) : "memory"); }
INLINE void tensor_map(uint space, const volatile void *map, const volatile void *base, uint bytes, uint columns, uint rows, ulong pitch,
                       uint wide, uint high) {
  const uint lane = threadIdx.x % 32;
  const size_t to = __cvta_generic_to_global((const void *)map), from = __cvta_generic_to_global((const void *)base);
  asm volatile("st.shared.u32 [%0], 0;" :: "r"(space + 4 * lane) : "memory");
  portatile_warp_barrier();
#if __CUDACC_VER_MAJOR__ < 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ < 5)
  pitch >>= 4;  // until then as the map holds it
#endif
#define MAP_FIELD(name, ord, width, value, letter) \
  asm volatile("tensormap.replace.tile." name ".shared::cta.b1024." width " [%0], " ord "%1;" :: "r"(space), letter(value) : "memory")
  if (lane == 0) {
    MAP_FIELD("global_address", "", "b64", from, "l");
    MAP_FIELD("rank", "", "b32", 1, "r");  // less one
    MAP_FIELD("box_dim", "0, ", "b32", wide, "r");
    MAP_FIELD("box_dim", "1, ", "b32", high, "r");
    MAP_FIELD("global_dim", "0, ", "b32", columns, "r");
    MAP_FIELD("global_dim", "1, ", "b32", rows, "r");
    MAP_FIELD("global_stride", "0, ", "b64", pitch, "l");
    MAP_FIELD("element_stride", "0, ", "b32", 1, "r");
    MAP_FIELD("element_stride", "1, ", "b32", 1, "r");
    if (bytes == 1) MAP_FIELD("elemtype", "", "b32", 0, "n");
    else if (bytes == 2) MAP_FIELD("elemtype", "", "b32", 1, "n");
    else MAP_FIELD("elemtype", "", "b32", 2, "n");
    MAP_FIELD("interleave_layout", "", "b32", 0, "n");
    MAP_FIELD("swizzle_mode", "", "b32", 3, "n");  // of 128 bytes
    MAP_FIELD("fill_mode", "", "b32", 0, "n");
  }
  portatile_warp_barrier();
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
               :: "l"(to), "r"(space) : "memory");
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(to) : "memory");
}
INLINE void tensor_copy(uint to, const volatile void *map, int column, int row, uint b) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               :: "r"(to), "l"(__cvta_generic_to_global((const void *)map)), "r"(column), "r"(row), "r"(b) : "memory");
}
struct __align__(64) portatile_map { ulong words[16]; };
typedef const portatile_map *tensor_map_t;
typedef tensor_map_t tensor_at_t;
INLINE void tensor_prefetch(tensor_map_t map) { asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory"); }
INLINE void tensor_copy_by(uint to, tensor_map_t map, int column, int row, uint b) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               :: "r"(to), "l"(map), "r"(column), "r"(row), "r"(b) : "memory");
}
INLINE void tensor_copy_by_3d(uint to, tensor_map_t map, int column, int row, int plane, uint b) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
               :: "r"(to), "l"(map), "r"(column), "r"(row), "r"(plane), "r"(b) : "memory");
}
INLINE void tensor_copy_to_all(uint to, const volatile void *map, int column, int row, uint b, ushort groups) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
               " [%0], [%1, {%2, %3}], [%4], %5;"
               :: "r"(to), "l"(__cvta_generic_to_global((const void *)map)), "r"(column), "r"(row), "r"(b), "h"(groups) : "memory");
}
INLINE void tensor_copy_by_to_all(uint to, tensor_map_t map, int column, int row, uint b, ushort groups) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
               " [%0], [%1, {%2, %3}], [%4], %5;"
               :: "r"(to), "l"(map), "r"(column), "r"(row), "r"(b), "h"(groups) : "memory");
}
INLINE void tensor_copy_by_3d_to_all(uint to, tensor_map_t map, int column, int row, int plane, uint b, ushort groups) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
               " [%0], [%1, {%2, %3, %4}], [%5], %6;"
               :: "r"(to), "l"(map), "r"(column), "r"(row), "r"(plane), "r"(b), "h"(groups) : "memory");
}
INLINE void mbarrier_arrive_at(uint b, uint rank) {
  asm volatile("{ .reg .b32 a; mapa.shared::cluster.u32 a, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [a]; }"
               :: "r"(b), "r"(rank) : "memory");
}
INLINE uint cluster_rank() { uint r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
INLINE void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
INLINE void store_fragment(uint to, uint a, uint b, uint c, uint d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
INLINE ulong wgmma_operand(uint address, uint leading, uint stride) {
  return ulong((address & 0x3ffff) >> 4) | ulong(leading >> 4) << 16 | ulong(stride >> 4) << 32 | 1ul << 62;
}
INLINE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
INLINE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int n> INLINE void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory"); }
template <int n> INLINE void warp_registers_less() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(n)); }
template <int n> INLINE void warp_registers_more() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(n)); }
}  // namespace ocl
