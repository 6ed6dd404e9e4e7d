/* Integration of rigid bodies: quaternions as typedefs, structures of vectors and scalars, pointers to private structures, inline helpers.
   run: rigid_bodies --global 8 --local 8 float:160=random(-1,1) 0.0625 0.99 0,-9.8,0,0
   tolerance: 1e-3 as fast_normalize may err by 8192 units in the last place, and on one driver does by a third of that */
typedef float4 Quaternion;
typedef struct { float4 m_row[3]; } Matrix3x3;
typedef struct __attribute__((aligned(16))) {
  float4 m_pos;
  Quaternion m_quat;
  float4 m_linVel;
  float4 m_angVel;
  unsigned int m_collidableIdx;
  float m_invMass, m_restituitionCoeff, m_frictionCoeff;
} Body;
#define mymake_float4 (float4)
#define SELECT_UINT4(b, a, condition) select(b, a, condition)
__inline float4 cross3(float4 a, float4 b) { return cross(a, b); }
__inline float dot3F4(float4 a, float4 b) { float4 a1 = mymake_float4(a.xyz, 0.f); float4 b1 = mymake_float4(b.xyz, 0.f); return dot(a1, b1); }
__inline Quaternion qtMul(Quaternion a, Quaternion b)
{
  Quaternion ans;
  ans = cross3(a, b);
  ans += a.w * b + b.w * a;
  ans.w = a.w * b.w - dot3F4(a, b);
  return ans;
}
__inline Matrix3x3 qtGetRotationMatrix(Quaternion quat)
{
  float4 quat2 = (float4)(quat.x * quat.x, quat.y * quat.y, quat.z * quat.z, 0.f);
  Matrix3x3 out;
  out.m_row[0] = (float4)(1 - 2 * quat2.y - 2 * quat2.z, 2 * quat.x * quat.y - 2 * quat.w * quat.z, 2 * quat.x * quat.z + 2 * quat.w * quat.y, 0.f);
  out.m_row[1] = (float4)(2 * quat.x * quat.y + 2 * quat.w * quat.z, 1 - 2 * quat2.x - 2 * quat2.z, 2 * quat.y * quat.z - 2 * quat.w * quat.x, 0.f);
  out.m_row[2].xyzw = (float4)(quat.xy, 0, 0).xxyy * quat.zzww;
  out.m_row[2].w = 0;
  return out;
}
static void step(__global Body *bodies, Body *local_, float dt, float damp, const float4 *gravity)
{
  const float BT_GPU_ANGULAR_MOTION_THRESHOLD = (0.25f * 3.14159254f);
  if (local_->m_invMass != 0.f) {
    float4 angvel = local_->m_angVel * damp;
    float fAngle = native_sqrt(dot3F4(angvel, angvel));
    if (fAngle * dt > BT_GPU_ANGULAR_MOTION_THRESHOLD) fAngle = BT_GPU_ANGULAR_MOTION_THRESHOLD / dt;
    float4 axis = fAngle < 0.001f ? angvel * (0.5f * dt) : angvel * (native_sin(0.5f * fAngle * dt) / fAngle);
    Quaternion dorn = axis;
    dorn.w = native_cos(fAngle * dt * 0.5f);
    local_->m_quat = fast_normalize(qtMul(dorn, local_->m_quat));
    local_->m_linVel += *gravity * dt;
    local_->m_pos += local_->m_linVel * dt;
  }
  Matrix3x3 m = qtGetRotationMatrix(local_->m_quat);
  local_->m_angVel = (float4)(dot3F4(m.m_row[0], local_->m_angVel), dot3F4(m.m_row[1], local_->m_angVel), dot3F4(m.m_row[2], local_->m_angVel), 0);
  int4 fast = isgreater(fabs(local_->m_linVel), (float4)0.5f);
  local_->m_linVel = SELECT_UINT4(local_->m_linVel, (float4)(0.5f), as_uint4(fast));
  *bodies = *local_;
}
__kernel void rigid_bodies(__global Body *bodies, const float timeStep, float angularDamping, float4 gravityAcceleration)
{
  int nodeID = get_global_id(0);
  Body body = bodies[nodeID];
  step(&bodies[nodeID], &body, timeStep, angularDamping, &gravityAcceleration);
}
