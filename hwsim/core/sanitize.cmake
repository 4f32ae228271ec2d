# Address and undefined-behaviour sanitizers: cmake -DSPARSELOOM_SANITIZE=ON, see docs/simulator.md.
option(SPARSELOOM_SANITIZE "Build the core with the address and undefined-behaviour sanitizers" OFF)
if(SPARSELOOM_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g -O1)
  add_link_options(-fsanitize=address,undefined)
endif()
