# Matrix units and residues: tests of copies to aligned rows, candidates, OpenCL, residues with steps, 16-bit types at all transpositions, power.
set +e; mkdir -p $OUT /tmp/uj
export PORTATILE_TIME_UNTUNED=off
COMMIT=18d74e358edf85943ea3b64ae7e6db31e24a53a3
cat > /tmp/uj/warm.py <<'PYEOF'
PYEOF
cat > /tmp/uj/cand.py <<'PYEOF'
PYEOF
cat > /tmp/uj/cl.py <<'PYEOF'
PYEOF
cat > /tmp/uj/power.py <<'PYEOF'
PYEOF
t0=$(date +%s); at() { echo "-- $1 $(( $(date +%s) - t0 )) s"; }
nvidia-smi -L | head -2; nproc
timeout -k 3 -s INT 18 python3 /tmp/uj/warm.py 8 > $OUT/warm.txt 2>&1 &
PYTHONPATH=$PYTHONPATH:tests timeout -k 3 -s INT 18 python3 -m pytest -q -n 8 -p no:cacheprovider tests/device/test_gemm_matrix.py -k "aligned or warp_groups or int8" > $OUT/tests.txt 2>&1 &
wait; at "tests, warm"; tail -3 $OUT/tests.txt; tail -3 $OUT/warm.txt
timeout -k 3 -s INT 35 python3 /tmp/uj/cand.py 31 > $OUT/cand.txt 2>&1; at cand
timeout -k 3 -s INT 12 python3 /tmp/uj/cl.py 10 > $OUT/cl.txt 2>&1; at cl
timeout -k 3 -s INT 14 python3 bench/residues.py --dtypes float64 --sizes 2048,4096,8192 --data normal --burst 5 --sustained 0.2 --steps --opencl --commit $COMMIT --out $OUT > $OUT/residues.txt 2>&1; at residues
timeout -k 3 -s INT 13 python3 bench/residues.py --dtypes complex128,complex64 --sizes 2048,4096 --data normal --burst 5 --sustained 0.15 --steps --opencl --commit $COMMIT --out $OUT >> $OUT/residues.txt 2>&1; at complex
timeout -k 3 -s INT 31 python3 bench/matrix_units.py --opencl --kinds bfloat16,float16 --sizes 2048,4096,8192 --shapes 32x512x512x512 --trans NT,TN,TT,NN --points '' --sustained 0.05 --commit $COMMIT --out $OUT --limit 28 > $OUT/bench16.txt 2>&1; at bench16
timeout -k 3 -s INT 12 python3 /tmp/uj/power.py > $OUT/power.txt 2>&1; at power
cat $OUT/cand.out | cut -c1-230; cat $OUT/cl.txt | tail -12; tail -14 $OUT/residues.txt | cut -c1-150; cat $OUT/power.txt | tail -8
