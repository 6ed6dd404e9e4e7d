/* Quarter rounds on an array in registers, 64-bit counter in two words.
   run: chacha --global 8 --local 8 16=random(0,2000000000) 8x16 77 */
#define QR(a, b, c, d) a += b, d ^= a, d = rotate(d, 16u), c += d, b ^= c, b = rotate(b, 12u), a += b, d ^= a, d = rotate(d, 8u), c += d, b ^= c, b = rotate(b, 7u)
__kernel void chacha(__constant uint *key, __global uint *stream, ulong counter)
{
  uint x[16], n = get_global_id(0);
  counter += n;
  for (int i = 0; i < 16; i++) x[i] = key[i];
  x[12] = (uint)counter, x[13] = (uint)(counter >> 32);
  for (int i = 0; i < 4; i++) {
    QR(x[0], x[4], x[8], x[12]);
    QR(x[1], x[5], x[9], x[13]);
    QR(x[2], x[6], x[10], x[14]);
    QR(x[3], x[7], x[11], x[15]);
    QR(x[0], x[5], x[10], x[15]);
    QR(x[1], x[6], x[11], x[12]);
  }
  for (int i = 0; i < 16; i += 4) vstore4((uint4)(x[i], x[i + 1], x[i + 2], x[i + 3]), n * 4 + i / 4, stream);
}
