/* BLAKE2b's compression: macros that paste names together, a permutation table of bytes, vectors of 64-bit words.
   run: blake2b --global 8 --local 4 128=random 64 */
__constant uchar blake2b_sigma[3][16] = {
  {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
  {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
  {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}};
__constant static const ulong blake2b_IV[8] = {
  0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
  0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
#define CAT(a, b) a##b
#define V(n) CAT(v, n)
#define rotr64(x, n) rotate((x), (ulong)(64 - (n)))
#define G(r, i, a, b, c, d) \
  do { \
    a += b + m[blake2b_sigma[r][2 * i + 0]]; \
    d = as_ulong(as_uint2(d ^ a).s10); \
    c += d; b = rotr64(b ^ c, 24); \
    a += b + m[blake2b_sigma[r][2 * i + 1]]; \
    d = rotr64(d ^ a, 16); \
    c += d; b = rotr64(b ^ c, 63); \
  } while (0)
#define ROUND(r) \
  G(r, 0, V(0), V(4), V(8), V(12)); G(r, 1, V(1), V(5), V(9), V(13)); G(r, 2, V(2), V(6), V(10), V(14)); G(r, 3, V(3), V(7), V(11), V(15)); \
  G(r, 4, V(0), V(5), V(10), V(15)); G(r, 5, V(1), V(6), V(11), V(12)); G(r, 6, V(2), V(7), V(8), V(13)); G(r, 7, V(3), V(4), V(9), V(14))
__kernel void blake2b(__global const ulong *message, __global ulong8 *digest)
{
  const size_t id = get_global_id(0);
  ulong m[16];
  #pragma unroll
  for (int i = 0; i < 16; i++) m[i] = message[id * 16 + i];
  ulong h[8];
  for (int i = 0; i < 8; i++) h[i] = blake2b_IV[i];
  h[0] ^= 0x01010040;
  ulong v0 = h[0], v1 = h[1], v2 = h[2], v3 = h[3], v4 = h[4], v5 = h[5], v6 = h[6], v7 = h[7];
  ulong v8 = blake2b_IV[0], v9 = blake2b_IV[1], v10 = blake2b_IV[2], v11 = blake2b_IV[3];
  ulong v12 = blake2b_IV[4] ^ 128, v13 = blake2b_IV[5], v14 = ~blake2b_IV[6], v15 = blake2b_IV[7];
  ROUND(0);
  ROUND(1);
  ROUND(2);
  digest[id] = (ulong8)(h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]) ^ (ulong8)(v0, v1, v2, v3, v4, v5, v6, v7)
             ^ (ulong8)(v8, v9, v10, v11, v12, v13, v14, v15);
}
