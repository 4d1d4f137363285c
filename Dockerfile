# Echelon from its wheel, for a CPU or for CUDA:
#
#   python -m build                                              # dist/*.whl
#   docker build --target cpu -t echelon:cpu .
#   docker build --target cuda -t echelon:cuda .                 # docker run --gpus all echelon:cuda
#
# It begins with what the machine offers: docker run echelon:cpu. Files of a run belong to a volume:
#   docker run -v "$PWD:/work" echelon:cpu echelon-train --preset quick --run-dir runs/mine
# Pages are served to the machine around the container:
#   docker run -p 127.0.0.1:8000:8000 echelon:cpu echelon-arena command --blue human --no-browser --host 0.0.0.0 --port 8000
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS base
RUN useradd --create-home --uid 1000 echelon && mkdir /work && chown echelon /work
WORKDIR /work
CMD ["echelon", "doctor"]

FROM base AS cpu
RUN pip install --no-cache-dir "torch>=2.11,<2.16" --index-url https://download.pytorch.org/whl/cpu
# The rollout compiles the simulation's loops, which every start of the image then finds beside the package.
RUN --mount=type=bind,source=dist,target=/dist \
    pip install --no-cache-dir "$(echo /dist/*.whl)[play]" \
    && ECHELON_COMPILE=wait python -c "import echelon; echelon.versus(num_envs=2, device='cpu').rollout(2)"
USER 1000

# torch's own wheel brings CUDA; of the host it needs the driver. torch.compile needs a C compiler.
FROM base AS cuda
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,source=dist,target=/dist \
    pip install --no-cache-dir "$(echo /dist/*.whl)[play]" \
    && ECHELON_COMPILE=wait python -c "import echelon; echelon.versus(num_envs=2, device='cpu').rollout(2)"
USER 1000
