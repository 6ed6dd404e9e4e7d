/* Keccak-f[1600] as miners write it: 64-bit rotations, tables of offsets and of round constants, an unrolled macro per step.
   run: keccak --global 4 --local 2 100=random 100 */
__constant ulong RC[24] = {
  0x0000000000000001UL, 0x0000000000008082UL, 0x800000000000808aUL, 0x8000000080008000UL, 0x000000000000808bUL, 0x0000000080000001UL,
  0x8000000080008081UL, 0x8000000000008009UL, 0x000000000000008aUL, 0x0000000000000088UL, 0x0000000080008009UL, 0x000000008000000aUL,
  0x000000008000808bUL, 0x800000000000008bUL, 0x8000000000008089UL, 0x8000000000008003UL, 0x8000000000008002UL, 0x8000000000000080UL,
  0x000000000000800aUL, 0x800000008000000aUL, 0x8000000080008081UL, 0x8000000000008080UL, 0x0000000080000001UL, 0x8000000080008008UL};
__constant uchar ROT[] = {1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44};
__constant uchar PIL[] = {10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1};
#define ROTL64(x, y) (((x) << (y)) | ((x) >> (64 - (y))))
#define THETA(i) bc[i] = st[i] ^ st[i + 5] ^ st[i + 10] ^ st[i + 15] ^ st[i + 20];
#define EACH5(M) M(0) M(1) M(2) M(3) M(4)
static inline void keccakf(ulong *st, const int rounds)
{
  ulong t, bc[5];
  for (int r = 0; r < rounds; ++r) {
    EACH5(THETA)
    for (uint i = 0; i < 5; i++) {
      t = bc[(i + 4) % 5] ^ ROTL64(bc[(i + 1) % 5], 1);
      for (uint j = 0; j < 25; j += 5) st[j + i] ^= t;
    }
    t = st[1];
    for (int i = 0; i < 24; i++) {
      int j = PIL[i];
      bc[0] = st[j];
      st[j] = rotate(t, (ulong)ROT[i]);
      t = bc[0];
    }
    for (int j = 0; j < 25; j += 5) {
      for (int i = 0; i < 5; i++) bc[i] = st[j + i];
      for (int i = 0; i < 5; i++) st[j + i] ^= (~bc[(i + 1) % 5]) & bc[(i + 2) % 5];
    }
    st[0] ^= RC[r];
  }
}
__kernel void keccak(__global const ulong *in, __global ulong *out)
{
  ulong state[25] = {0};
  const size_t gid = get_global_id(0);
  for (int i = 0; i < 25; ++i) state[i] = in[gid * 25 + i];
  keccakf(state, 3);
  for (int i = 0; i < 25; ++i) out[gid * 25 + i] = state[i];
}
