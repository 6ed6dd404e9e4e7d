/* A round of AES on uchar4 columns: multiplication in the field, a table of bytes, shifts of rows.
   run: aes_round --global 4 --local 4 4x16=random(0,255) 4x16=random(0,255) 4x16 */
inline uchar xtime(uchar x) { return (x << 1) ^ ((x >> 7) & 1 ? 0x1b : 0); }
uchar4 mixColumn(uchar4 a)
{
  uchar t = a.x ^ a.y ^ a.z ^ a.w;
  uchar4 r;
  r.s0 = a.s0 ^ t ^ xtime(a.s0 ^ a.s1);
  r.s1 = a.s1 ^ t ^ xtime(a.s1 ^ a.s2);
  r.s2 = a.s2 ^ t ^ xtime(a.s2 ^ a.s3);
  r.s3 = a.s3 ^ t ^ xtime(a.s3 ^ a.s0);
  return r;
}

uchar inverse(uchar a)
{
  uchar r = a;
  for (int i = 0; i < 6; i++) {
    uchar x = r, y = r, p = 0;
    while (y) {
      if (y & 1) p ^= x;
      x = xtime(x), y >>= 1;
    }
    r = p;
  }
  return r;
}

__kernel void aes_round(__global const uchar4 *in, __global const uchar4 *key, __global uchar4 *out)
{
  int block = get_global_id(0) * 4;
  for (int c = 0; c < 4; c++) {
    uchar4 col = (uchar4)(in[block + c].x, in[block + ((c + 1) & 3)].y, in[block + ((c + 2) & 3)].z, in[block + ((c + 3) & 3)].w);
    col = (uchar4)(inverse(col.x), inverse(col.y), inverse(col.z), inverse(col.w)) ^ rotate(col, (uchar4)(1)) ^ (uchar4)0x63;
    out[block + c] = mixColumn(col) ^ key[block + c];
  }
}
