/* Look-ups in a flattened B+ tree: structures with arrays in global memory, one work-group a query, shared offsets.
   run: b_plus_tree --global 32 --local 8 int:120=random(0,4) 4=1 4=6 int:4=0 2 4 */
#define ORDER 8
typedef struct record { int value; } record;
typedef struct knode {
  int location;
  int indices[ORDER + 1];
  int keys[ORDER + 1];
  bool is_leaf;
  int num_keys;
} knode;
__kernel void b_plus_tree(__global const int *flat, __global int *currKnode, __global const int *keys, __global record *answers, const long height, const int nodes)
{
  const int thid = get_local_id(0), bid = get_group_id(0);
  const int words = sizeof(knode) / sizeof(int);
  __local int current;
  if (thid == 0) current = currKnode[bid];
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  for (long i = 0; i < height; i++) {
    __global const knode *node = (__global const knode *)(flat + (current % nodes) * words);
    const int low = node->keys[thid], high = node->keys[thid + 1];
    if (low <= keys[bid] && keys[bid] > high) atomic_max(&current, (node->indices[thid] % nodes + nodes) % nodes);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (thid == 0) {
    __global const knode *leaf = (__global const knode *)flat + current;
    answers[bid].value = leaf->num_keys * 100 + leaf->location + (leaf->is_leaf ? 1000 : 0);
    currKnode[bid] = current;
  }
}
