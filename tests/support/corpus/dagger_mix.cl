/* Mixing with a data set as memory-hard miners do it: unions of words and vectors, FNV, shared lanes in local memory, modulo by a scalar.
   run: dagger_mix --global 16 --local 8 uint:16=random(0,1000000) uint:128=random 16 local:32 31 6 */
#define FNV_PRIME 0x01000193U
#define THREADS_PER_HASH 4
#define fnv(x, y) ((x) * FNV_PRIME ^ (y))
#define fnv4(x, y) ((x) * FNV_PRIME ^ (y))
static uint fnv_reduce(uint4 v) { return fnv(fnv(fnv(v.x, v.y), v.z), v.w); }
typedef union { uint words[16 / sizeof(uint)]; uint4 uint4s[16 / sizeof(uint4)]; } hash16_t;
typedef union _Node { uint dwords[4]; uint4 dqwords; } Node;
typedef union { uint uints[4]; uint4 whole; } compute_hash_share;
__kernel void dagger_mix(__global const Node *seeds, __global hash16_t const *g_dag, __global uint *out, __local compute_hash_share *share, uint dag_size, uint isolate)
{
  const uint gid = get_global_id(0), lid = get_local_id(0);
  const int thread_id = lid % THREADS_PER_HASH, hash_id = lid / THREADS_PER_HASH;
  uint4 mix = seeds[gid / 4].dqwords + thread_id;
  for (uint a = 0; a < isolate; a++) {
    if (thread_id == (a & 3)) share[hash_id].uints[0] = fnv(a ^ mix.x, ((uint *)&mix)[a & 3]) % dag_size;
    barrier(CLK_LOCAL_MEM_FENCE);
    mix = fnv4(mix, g_dag[share[hash_id].uints[0]].uint4s[0]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  out[gid] = fnv_reduce(mix);
}
