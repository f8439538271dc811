@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)  # no @hint: here
    text = "# @hint: not_one"
    for i in range(n):  # @hint: num_stages=3, loop_unroll_factor=2
        a = tl.load(
            x + offsets,  # noqa # @hint: shared_memory
            mask=offsets < n,
        )
        # @hint: between
        tl.store(y + offsets, a)
