/* Phases over a table in constant memory, sine and cosine.
   run: mri_q --global 32 --local 32 8 32=random 32=random 32=random 32=zeros 32=zeros float:32=random(-1,1)
   tolerance: 1e-4 */
#define PIx2 6.2831853071795864769252867665590058f
struct kValues {
  float Kx, Ky, Kz, PhiMag;
};
__kernel void mri_q(int numK, __global float *x, __global float *y, __global float *z, __global float *Qr, __global float *Qi,
                    __constant struct kValues *ck)
{
  int xIndex = get_global_id(0);
  float sX = x[xIndex], sY = y[xIndex], sZ = z[xIndex], sQr = Qr[xIndex], sQi = Qi[xIndex];
  for (int kIndex = 0; kIndex < numK; kIndex++) {
    float expArg = PIx2 * (ck[kIndex].Kx * sX + ck[kIndex].Ky * sY + ck[kIndex].Kz * sZ);
    sQr += ck[kIndex].PhiMag * cos(expArg);
    sQi += ck[kIndex].PhiMag * sin(expArg);
  }
  Qr[xIndex] = sQr;
  Qi[xIndex] = sQi;
}
