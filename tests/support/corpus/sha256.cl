/* SHA-256 compression of one block per work-item, messages in big-endian order.
   run: sha256 --global 4 --local 4 4x16=random(0,2000000000) 4x8 */
#define rotr(x, n) rotate((uint)(x), (uint)(32 - (n)))
#define Ch(x, y, z) bitselect((z), (y), (x))
#define Maj(x, y, z) bitselect((x), (y), ((x) ^ (z)))
#define Sigma0(x) (rotr(x, 2) ^ rotr(x, 13) ^ rotr(x, 22))
#define Sigma1(x) (rotr(x, 6) ^ rotr(x, 11) ^ rotr(x, 25))
#define sigma0(x) (rotr(x, 7) ^ rotr(x, 18) ^ ((x) >> 3U))
#define sigma1(x) (rotr(x, 17) ^ rotr(x, 19) ^ ((x) >> 10U))
__constant uint K[8] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5};
static uint swap_endian(uint v) { return as_uint(as_uchar4(v).wzyx); }
__kernel void sha256(__global const uint *in, __global uint *out)
{
  uint g = get_global_id(0), W[64], s[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
#pragma unroll 1
  for (int t = 0; t < 64; t++) W[t] = t < 16 ? swap_endian(in[g * 16 + t]) : sigma1(W[t - 2]) + W[t - 7] + sigma0(W[t - 15]) + W[t - 16];
  uint A = s[0], B = s[1], C = s[2], D = s[3], E = s[4], F = s[5], G = s[6], H = s[7];
#pragma unroll 1
  for (int t = 0; t < 64; t++) {
    uint T1 = H + Sigma1(E) + Ch(E, F, G) + K[t & 7] + W[t], T2 = Sigma0(A) + Maj(A, B, C);
    H = G, G = F, F = E, E = D + T1, D = C, C = B, B = A, A = T1 + T2;
  }
  uint add[] = {A, B, C, D, E, F, G, H};
  for (int i = 0; i < 8; i++) out[g * 8 + i] = s[i] + add[i];
}
