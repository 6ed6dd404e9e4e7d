/* Distinct keys put into an open table by compare and exchange; then counted.
   run: hash_table --global 16 --local 16 16=random(1,9) 32=0 1=0 31 */
__kernel void hash_table(__global const uint *keys, volatile __global uint *table, volatile __global int *distinct, uint mask)
{
  uint key = keys[get_global_id(0)], slot = (key * 2654435761u >> 16) & mask;
  for (;;) {
    uint old = atomic_cmpxchg(&table[slot], 0u, key);
    if (old == 0u) {
      atomic_inc(distinct);
      break;
    }
    if (old == key) break;
    slot = (slot + 1) & mask;
  }
}
