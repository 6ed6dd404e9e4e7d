/* Hopper's matrix products and copies in OpenCL C: the names that cuda_tensor.h explains, without those of clusters.

   NVIDIA's OpenCL C compiles for sm_90, which lacks instructions of sm_90a. An instruction here is a comment in the PTX that it gives,
   behind PORTATILE_LATER: device/opencl/later.py makes it an instruction of a text for sm_90a. Each stands in a line of its own. */
#define PORTATILE_LATER "//portatile: "
#define WARP_BARRIER() asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")
#define WARP_GROUP_BARRIER(group) asm volatile("bar.sync %0, 128;" :: "r"((group) + 1) : "memory")
static inline void group_arrive(uint items) { asm volatile("bar.arrive 3, %0;" :: "r"(items) : "memory"); }
static inline void group_wait(uint items) { asm volatile("bar.sync 3, %0;" :: "r"(items) : "memory"); }
static inline void turn_over(uint group) { asm volatile("bar.arrive %0, 256;" :: "r"(group + 4) : "memory"); }
static inline void turn_wait(uint group) { asm volatile("bar.sync %0, 256;" :: "r"(group + 4) : "memory"); }
static inline void mbarrier_init(uint b, uint count) {
  asm volatile(PORTATILE_LATER "mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(b), "r"(count) : "memory");
}
static inline void mbarrier_init_done(void) {
  asm volatile(PORTATILE_LATER "fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile(PORTATILE_LATER "fence.proxy.async.shared::cta;" ::: "memory");
}
static inline void mbarrier_expect(uint b, uint bytes) {
  asm volatile(PORTATILE_LATER "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(bytes) : "memory");
}
static inline void mbarrier_arrive(uint b) { asm volatile(PORTATILE_LATER "mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(b) : "memory"); }
static inline void mbarrier_arrive_copied(uint b) {
  asm volatile(PORTATILE_LATER "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(b) : "memory");
}
static inline void mbarrier_wait(uint b, uint parity) {
  uint done;
  do
    asm volatile(PORTATILE_LATER "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(b), "r"(parity) : "memory");
  while (!done);
}
#define PORTATILE_MAP_FIELD(name, ord, width, value, letter) \
  asm volatile(PORTATILE_LATER "tensormap.replace.tile." name ".shared::cta.b1024." width " [%0], " ord "%1;" :: "r"(space), letter(value) : "memory")
/* tensor_map of a stack of so many `planes`, `step` bytes apart; of one matrix where there are none */
static inline void tensor_map_3d(uint space, __global uchar *map, __global const void *base, uint bytes, uint columns, uint rows, ulong pitch,
                                 uint planes, ulong step, uint wide, uint high) {
  const uint lane = (uint)get_local_id(0) % 32;
  asm volatile("st.shared.u32 [%0], 0;" :: "r"(space + 4 * lane) : "memory");
  WARP_BARRIER();
  if (lane == 0) {
    PORTATILE_MAP_FIELD("global_address", "", "b64", (ulong)base, "l");
    PORTATILE_MAP_FIELD("rank", "", "b32", planes ? 2 : 1, "r");  // less one
    PORTATILE_MAP_FIELD("box_dim", "0, ", "b32", wide, "r");
    PORTATILE_MAP_FIELD("box_dim", "1, ", "b32", high, "r");
    PORTATILE_MAP_FIELD("global_dim", "0, ", "b32", columns, "r");
    PORTATILE_MAP_FIELD("global_dim", "1, ", "b32", rows, "r");
    PORTATILE_MAP_FIELD("global_stride", "0, ", "b64", pitch, "l");
    PORTATILE_MAP_FIELD("element_stride", "0, ", "b32", 1, "r");
    PORTATILE_MAP_FIELD("element_stride", "1, ", "b32", 1, "r");
    if (planes) {
      PORTATILE_MAP_FIELD("box_dim", "2, ", "b32", 1, "r");
      PORTATILE_MAP_FIELD("global_dim", "2, ", "b32", planes, "r");
      PORTATILE_MAP_FIELD("global_stride", "1, ", "b64", step, "l");
      PORTATILE_MAP_FIELD("element_stride", "2, ", "b32", 1, "r");
    }
    if (bytes == 1) PORTATILE_MAP_FIELD("elemtype", "", "b32", 0, "n");
    else if (bytes == 2) PORTATILE_MAP_FIELD("elemtype", "", "b32", 1, "n");
    else PORTATILE_MAP_FIELD("elemtype", "", "b32", 2, "n");
    PORTATILE_MAP_FIELD("interleave_layout", "", "b32", 0, "n");
    PORTATILE_MAP_FIELD("swizzle_mode", "", "b32", 3, "n");  // of 128 bytes
    PORTATILE_MAP_FIELD("fill_mode", "", "b32", 0, "n");
  }
  WARP_BARRIER();
  asm volatile(PORTATILE_LATER "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
               :: "l"(map), "r"(space) : "memory");
  asm volatile(PORTATILE_LATER "fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
}
static inline void tensor_map(uint space, __global uchar *map, __global const void *base, uint bytes, uint columns, uint rows, ulong pitch,
                              uint wide, uint high) {
  tensor_map_3d(space, map, base, bytes, columns, rows, pitch, 0, 0, wide, high);
}
/* a parameter's address; the first and the second of 128 bytes are told apart by their place */
typedef ulong16 tensor_map_t;
typedef ulong tensor_at_t;
#define TENSOR_AT(map, place) portatile_tensor_at_##place()
static inline ulong portatile_tensor_at_0(void) { ulong at; asm volatile(PORTATILE_LATER "parameter 0 %0;" : "=l"(at)); return at; }
static inline ulong portatile_tensor_at_1(void) { ulong at; asm volatile(PORTATILE_LATER "parameter 1 %0;" : "=l"(at)); return at; }
static inline void tensor_prefetch(tensor_at_t map) { asm volatile(PORTATILE_LATER "prefetch.tensormap [%0];" :: "l"(map) : "memory"); }
static inline void tensor_copy_by(uint to, tensor_at_t map, int column, int row, uint b) {
  asm volatile(PORTATILE_LATER "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               :: "r"(to), "l"(map), "r"(column), "r"(row), "r"(b) : "memory");
}
static inline void tensor_copy_by_3d(uint to, tensor_at_t map, int column, int row, int plane, uint b) {
  asm volatile(PORTATILE_LATER "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
               :: "r"(to), "l"(map), "r"(column), "r"(row), "r"(plane), "r"(b) : "memory");
}
static inline void tensor_copy(uint to, __global uchar *map, int column, int row, uint b) {
  asm volatile(PORTATILE_LATER "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               :: "r"(to), "l"(map), "r"(column), "r"(row), "r"(b) : "memory");
}
static inline void store_fragment(uint to, uint a, uint b, uint c, uint d) {
  asm volatile(PORTATILE_LATER "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
static inline ulong wgmma_operand(uint address, uint leading, uint stride) {
  return (ulong)((address & 0x3ffff) >> 4) | (ulong)(leading >> 4) << 16 | (ulong)(stride >> 4) << 32 | 1ul << 62;
}
static inline void wgmma_fence(void) { asm volatile(PORTATILE_LATER "wgmma.fence.sync.aligned;" ::: "memory"); }
static inline void wgmma_commit(void) { asm volatile(PORTATILE_LATER "wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define WGMMA_WAIT(n) asm volatile(PORTATILE_LATER "wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory")
#define WARP_REGISTERS_LESS(n) asm volatile(PORTATILE_LATER "setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(n))
#define WARP_REGISTERS_MORE(n) asm volatile(PORTATILE_LATER "setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(n))
