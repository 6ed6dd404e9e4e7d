/* Salsa20/8 on uint16 in the manner of scrypt miners: long swizzles, halves of halves, rotation of vectors.
   run: salsa_scrypt --global 8 --local 8 8=random(0,100000) 8 8x4 */
#define ROTL(a, b) rotate(a, (uint4)(b))
void salsa(uint16 *B)
{
  uint4 w[4] = {(*B).s0123, (*B).s4567, (*B).s89ab, (*B).scdef};
  for (uint i = 0; i < 4; ++i) {
    w[1] ^= ROTL(w[0] + w[3], 7U);
    w[2] ^= ROTL(w[1] + w[0], 9U);
    w[3] ^= ROTL(w[2] + w[1], 13U);
    w[0] ^= ROTL(w[3] + w[2], 18U);
    w[1] = w[1].wxyz;
    w[2] = w[2].zwxy;
    w[3] = w[3].yzwx;
    uint4 swap = w[1]; w[1] = w[3]; w[3] = swap;
  }
  *B += (uint16)(w[0], w[1], w[2], w[3]);
}
__kernel void salsa_scrypt(__global const uint16 *restrict in, __global uint16 *restrict out, __global uint4 *restrict pad)
{
  const uint gid = get_global_id(0), stride = get_global_size(0);
  uint16 X = in[gid];
  for (uint i = 0; i < 4; i++) {
    pad[gid + i * stride] = X.hi.lo ^ X.lo.hi;
    salsa(&X);
  }
  for (uint i = 0; i < 4; i++) {
    uint j = X.sc & 3;
    X.s048c ^= pad[gid + j * stride];
    salsa(&X);
  }
  out[gid] = X.sfedcba9876543210;
}
