#!/usr/bin/env bash
# Makes the certificates of the tests anew, valid for a hundred years. They guard nothing: the key is public.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
new=(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500)
printf '[req]\ndistinguished_name = name\n[name]\n' >"$work/empty.cnf"
for authority in authority stranger; do
  "${new[@]}" -config "$work/empty.cnf" -subj "/CN=test $authority" -addext basicConstraints=critical,CA:TRUE \
    -addext keyUsage=critical,keyCertSign -keyout "$work/$authority.key" -out "$authority.crt"
done
"${new[@]}" -config "$work/empty.cnf" -subj /CN=kubelet -addext basicConstraints=critical,CA:FALSE \
  -addext extendedKeyUsage=serverAuth -addext subjectAltName=IP:127.0.0.1,IP:::1 \
  -CA authority.crt -CAkey "$work/authority.key" -keyout kubelet.key -out kubelet.crt
