# `make test` runs everything CI runs; `make demo` renders the pictures. Both install what they need.

CARGO ?= cargo
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
LLVM_PREFIX := /usr/lib/llvm-19
LLVM_PACKAGES := llvm-19-dev libpolly-19-dev libzstd-dev zlib1g-dev libxml2-dev libffi-dev g++
RENDER := $(CARGO) run --release --quiet --example render --
DEMO := target/demo

export INSTA_UPDATE ?= no

# Loom's models are built with a flag of their own, and so in a folder of their own.
LOOM := RUSTFLAGS="--cfg loom" $(CARGO) test -p jit-core --lib --target-dir target/loom interleavings

.PHONY: test demo deps format lint unit interleavings no-llvm doc photograph duck

test: deps format lint unit interleavings no-llvm doc

deps:
	@test -x $(LLVM_PREFIX)/bin/llvm-config || { \
	  $(SUDO) apt-get update && \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y $(LLVM_PACKAGES); }

format: deps
	@$(call step,format,$(CARGO) fmt --all --check)

lint: deps
	@$(call step,clippy,$(CARGO) clippy --workspace --all-targets -- -D warnings)

unit: deps
	@$(call step,tests,$(CARGO) test --workspace --tests)
	@$(call step,documentation tests,$(CARGO) test --workspace --doc)

# Gates, batches and queues in every interleaving of a few threads.
interleavings: deps
	@$(call step,interleavings,$(LOOM))

# The frontend alone, without LLVM: everything still builds and runs, on the interpreter.
no-llvm: deps
	@$(call step,tests without LLVM,$(CARGO) test -p jit-frontend --no-default-features --features derive --lib --tests)

doc: deps
	@$(call step,documentation,RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps)

demo: deps photograph duck
	$(RENDER) --scene rectangle --texture $(DEMO)/photograph.jpg --flip-v --size 768x768 --spp 64 --filter gaussian --out $(DEMO)/rectangle.png
	$(RENDER) --scene spheres --size 512x512 --spp 64 --out $(DEMO)/spheres.png
	$(RENDER) --scene cornell --spp 1024 --filter gaussian --out $(DEMO)/cornell.png
	$(RENDER) --scene mesh --mesh $(DEMO)/duck.obj --texture $(DEMO)/duckCM.png --turn 30 --size 384x384 --spp 256 --filter gaussian --out $(DEMO)/duck.png
	@echo "see $(DEMO)/rectangle.png, spheres.png, cornell.png and duck.png"

# A photograph in the public domain (Grace Hopper, by the U.S. Navy), out of a Python package that carries it.
photograph: $(DEMO)/photograph.jpg

$(DEMO)/photograph.jpg:
	@$(pip)
	$(call wheel,matplotlib)
	$(call unpack,matplotlib,matplotlib/mpl-data/sample_data/grace_hopper.jpg,$@)

# The duck of the COLLADA samples (Copyright 2006 Sony Computer Entertainment Inc., SCEA Shared Source License 1.0), out of
# a Python package that carries it. Of its wheels, that of one Python: what is wanted is the same in all of them.
duck: $(DEMO)/duck.obj $(DEMO)/duckCM.png

$(DEMO)/duck.obj $(DEMO)/duckCM.png:
	@$(pip)
	$(call wheel,pybullet --python-version 3.11 --platform manylinux2014_x86_64)
	$(call unpack,pybullet,pybullet_data/$(@F),$@)

# Installs pip if it is missing.
define pip
python3 -m pip --version >/dev/null 2>&1 || { \
  $(SUDO) apt-get update && \
  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y python3-pip; }
endef

# Downloads a wheel: $(call wheel,package and options).
define wheel
mkdir -p $(DEMO)/wheel
python3 -m pip download --quiet --no-deps --only-binary=:all: --dest $(DEMO)/wheel $(1)
endef

# Takes a file out of a wheel: $(call unpack,package,file,target).
define unpack
python3 -c 'import glob, zipfile; z = zipfile.ZipFile(glob.glob("$(DEMO)/wheel/$(1)-*.whl")[0]); open("$(3)", "wb").write(z.read("$(2)"))'
endef

# Runs a step and prints its time: $(call step,name,command).
define step
start=$$(date +%s); echo "== $(1)"; $(2) || exit $$?; echo "== $(1): $$(($$(date +%s) - start)) s"
endef
