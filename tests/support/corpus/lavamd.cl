/* Forces between particles of neighbouring boxes; structures of structures.
   run: lavamd --global 32 --local 16 float:8=0.5 float:128=random(0,2) 32=random float:128 0.5 */
typedef struct { float x, y, z; } THREE_VECTOR;
typedef struct { float v, x, y, z; } FOUR_VECTOR;
typedef struct { float alpha; THREE_VECTOR box; } par_str;
#define DOT(A, B) ((A.x) * (B.x) + (A.y) * (B.y) + (A.z) * (B.z))
__kernel void lavamd(__global const par_str *par, __global const FOUR_VECTOR *rv, __global const float *qv, __global FOUR_VECTOR *fv, float cut)
{
  __local FOUR_VECTOR rA[16];
  __local float q[16];
  int tx = get_local_id(0), first = get_group_id(0) * 16;
  float a2 = 2.0f * par[0].alpha * par->alpha;
  rA[tx] = rv[first + tx];
  FOUR_VECTOR f = {0};
  for (int box = 0; box < 2; box++) {
    q[tx] = qv[box * 16 + tx];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = 0; j < 16; j++) {
      FOUR_VECTOR other = rv[box * 16 + j];
      float r2 = rA[tx].v + other.v - DOT(rA[tx], other);
      float vij = exp(-(a2 * r2)), fs = 2.f * vij;
      THREE_VECTOR d;
      d.x = rA[tx].x - other.x, d.y = rA[tx].y - other.y, d.z = rA[tx].z - other.z;
      f.v += q[j] * vij;
      f.x += q[j] * (fs * d.x);
      f.y += q[j] * (fs * d.y);
      f.z += q[j] * (fs * d.z * cut);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  fv[first + tx] = f;
}
