#!/usr/bin/env bash
# Fetches the libraries of the page, the accessibility checker of its test, and what the documents need to be searched
# from a folder, from the npm registry: make vendor.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(cd "$here/../../../../tests/explorer" && pwd)/vendor
docs=$(cd "$here/../../../../docs/assets" && pwd)/vendor
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# package, the file of it, and where it goes
fetch() {
  [ -d "$1" ] || { mkdir "$1" && tar xzf "$(npm pack --silent "$1" 2>/dev/null)" -C "$1" --strip-components 1; }
  mkdir -p "$3"
  cp "$1/$2" "$3/$(basename "$2")"
  cp "$1/LICENSE" "$3/LICENSE.$1"
  version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' "$1/package.json")
  licence=$(sed -n 's/^  "license": "\(.*\)",$/\1/p' "$1/package.json")
  echo "$(basename "$2")  $1 $version, $licence" >>"$work/$(basename "$(dirname "$3")").versions"
}

fetch uplot dist/uPlot.iife.min.js "$here"
fetch uplot dist/uPlot.min.css "$here"
fetch d3-array dist/d3-array.min.js "$here"
fetch d3-contour dist/d3-contour.min.js "$here"
cp "$work/explorer.versions" "$here/VERSIONS" && rm "$work/explorer.versions"
fetch axe-core axe.min.js "$tests"
cp "$work/explorer.versions" "$tests/VERSIONS"
fetch iframe-worker shim/index.js "$docs" && mv "$docs/index.js" "$docs/iframe-worker.js"
sed 's/^index.js/iframe-worker.js/' "$work/assets.versions" >"$docs/VERSIONS"
