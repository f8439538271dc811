x = 1  # @hint shared_memory
y = 2  # @hint: a=, b
