/* Lennard-Jones forces over a neighbour list, templates by macro.
   run: md_lj --global 32 --local 16 32=random(0,3) 32 4x32=random(0,32) 4 2.0 1.5 2.0 32 */
#ifdef SINGLE_PRECISION_OFF
#define POSVECTYPE double4
#define FPTYPE double
#else
#define POSVECTYPE float4
#define FPTYPE float
#endif
__kernel void md_lj(__global const POSVECTYPE *position, __global POSVECTYPE *force, __global const int *neighList, const int neighCount,
                    const FPTYPE cutsq, const FPTYPE lj1, const FPTYPE lj2, const int inum)
{
  uint idx = get_global_id(0);
  POSVECTYPE ipos = position[idx];
  POSVECTYPE f = {0.0f, 0.0f, 0.0f, 0.0f};
  int j = 0;
  while (j < neighCount) {
    int jidx = neighList[j * inum + idx];
    POSVECTYPE jpos = position[jidx];
    FPTYPE delx = ipos.x - jpos.x, dely = ipos.y - jpos.y, delz = ipos.z - jpos.z;
    FPTYPE r2inv = delx * delx + dely * dely + delz * delz;
    if (r2inv < cutsq && r2inv > 0.01f) {
      r2inv = 10.0f / (1.0f + r2inv);
      FPTYPE r6inv = r2inv * r2inv * r2inv, fc = r2inv * r6inv * (lj1 * r6inv - lj2) * 1e-6f;
      f.x += delx * fc;
      f.y += dely * fc;
      f.z += delz * fc;
    }
    j++;
  }
  force[idx] = f;
}
