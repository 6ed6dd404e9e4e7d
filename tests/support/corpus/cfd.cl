/* Flux of an Euler solver: helper functions that return structures and write through pointers.
   run: cfd --global 16 --local 16 5x16=random(1,2) 4x16=random(0,16) 16 */
typedef struct {
  float x;
  float y;
  float z;
} Float3;
typedef struct {
  Float3 m;
  float density, energy;
} State;
#define GAMMA 1.4f
static inline float pressure(float density, float energy, float speed_sqd)
{
  return ((float)(GAMMA) - (float)(1.0f)) * (energy - (float)(0.5f) * density * speed_sqd);
}

void compute_velocity(float density, Float3 momentum, Float3 *velocity)
{
  velocity->x = momentum.x / density;
  velocity->y = momentum.y / density;
  velocity->z = momentum.z / density;
}

State load(__global const float *v, int i, int n)
{
  State s = {{v[n + i], v[2 * n + i], v[3 * n + i]}, v[i], v[4 * n + i]};
  return s;
}

__kernel void cfd(__global const float *variables, __global const int *neighbours, __global float *flux)
{
  const int i = get_global_id(0), n = get_global_size(0);
  float sum = 0;
  for (int j = 0; j < 4; j++) {
    int nb = neighbours[j * n + i];
    State s = load(variables, nb, n);
    Float3 velocity;
    compute_velocity(s.density, s.m, &velocity);
    float speed = velocity.x * velocity.x + velocity.y * velocity.y + velocity.z * velocity.z;
    sum += pressure(s.density, s.energy, speed) + sqrt(GAMMA * fabs(pressure(s.density, s.energy, speed)) / s.density);
  }
  flux[i] = sum;
}
