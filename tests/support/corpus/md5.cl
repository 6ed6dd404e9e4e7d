/* One MD5 block per work-item: rounds by macros, rotate, a digest as uint4.
   run: md5 --global 8 --local 8 8x16=random(0,2000000000) 8 */
#define F(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define G(x, y, z) F(z, x, y)
#define H(x, y, z) ((x) ^ (y) ^ (z))
#define I(x, y, z) ((y) ^ ((x) | ~(z)))
#define STEP(f, a, b, c, d, x, t, s) (a) += f((b), (c), (d)) + (x) + (t); (a) = rotate((a), (uint)(s)); (a) += (b);
__constant uint T[4] = {0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee};
__constant uchar S[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
__kernel void md5(__global const uint *blocks, __global uint4 *digests)
{
  uint gid = get_global_id(0), x[16], a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476;
  for (int i = 0; i < 16; i++) x[i] = blocks[gid * 16 + i];
  for (uint i = 0; i < 16; i += 4) {
    STEP(F, a, b, c, d, x[i], T[0] + i, S[0][0])
    STEP(F, d, a, b, c, x[i + 1], T[1] + i, S[0][1])
    STEP(G, c, d, a, b, x[i + 2], T[2] + i, S[1][2])
    STEP(G, b, c, d, a, x[i + 3], T[3] ^ i, S[1][3])
    STEP(H, a, b, c, d, x[(i + 5) & 15], T[1], S[2][0])
    STEP(I, d, a, b, c, x[(i + 9) & 15], T[2], S[3][1])
  }
  digests[gid] = (uint4)(a + 0x67452301, b + 0xefcdab89, c + 0x98badcfe, d + 0x10325476);
}
