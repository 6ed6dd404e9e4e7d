/* Rays against spheres: structures with float3, shadows, early return, reflections.
   run: ray_sphere --global 16,8 --local 16,1 8x16 float:24=random(0.2,2) 3 */
typedef struct {
  float3 origin, direction;
} Ray;
typedef struct {
  float4 centre_radius;
  float4 colour;
} Sphere;
Ray camera(int x, int y)
{
  Ray r;
  r.origin = (float3)(0.0f, 0.0f, -4.0f);
  r.direction = normalize((float3)((x - 7.5f) / 8.0f, (y - 3.5f) / 8.0f, 1.0f));
  return r;
}

bool intersect(const Ray *ray, __constant const Sphere *s, float *t)
{
  float3 oc = s->centre_radius.xyz - ray->origin;
  float b = dot(oc, ray->direction), det = b * b - dot(oc, oc) + s->centre_radius.w * s->centre_radius.w;
  if (det < 0.0f) return false;
  det = sqrt(det);
  *t = b - det > 1e-3f ? b - det : b + det;
  return *t > 1e-3f;
}

__kernel void ray_sphere(__global uchar4 *image, __constant Sphere *spheres, const int n)
{
  int x = get_global_id(0), y = get_global_id(1);
  Ray r = camera(x, y);
  float3 colour = (float3)(0.1f), weight = 1;
  for (int bounce = 0; bounce < 2; bounce++) {
    float nearest = INFINITY, t;
    int which = -1;
    for (int i = 0; i < n; i++)
      if (intersect(&r, spheres + i, &t) && t < nearest) nearest = t, which = i;
    if (which < 0) break;
    float3 p = r.origin + r.direction * nearest, normal = fast_normalize(p - spheres[which].centre_radius.xyz);
    float light = fmax(dot(normal, normalize((float3)(1, 1, -1))), 0.0f);
    colour += weight * spheres[which].colour.xyz * light * 0.25f;
    weight *= 0.5f;
    r.origin = p;
    r.direction -= 2.0f * dot(r.direction, normal) * normal;
  }
  image[y * get_global_size(0) + x] = (uchar4)(convert_uchar3_sat(colour * 20.0f), 255);
}
