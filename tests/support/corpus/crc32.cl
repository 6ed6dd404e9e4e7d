/* Checksum of bytes with a table that is made in local memory.
   run: crc32 --global 32 --local 32 32x16=random(0,255) 32 16 */
__kernel void crc32(__global const uchar *bytes, __global uint *out, const ulong length)
{
  __local uint table[256];
  for (uint n = get_local_id(0); n < 256; n += get_local_size(0)) {
    uint c = n;
    for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320U ^ (c >> 1) : c >> 1;
    table[n] = c;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  uint crc = ~0;
  __global const uchar *p = bytes + get_global_id(0) * length, *end = p + length;
  while (p < end) crc = table[(crc ^ *p++) & 0xff] ^ (crc >> 8);
  out[get_global_id(0)] = ~crc;
}
