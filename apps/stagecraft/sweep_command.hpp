#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft sweep SWEEP.yaml -o R.h5 [options]`, and `stagecraft sweep --merge SHARD.h5... -o
/// R.h5`
int sweep_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
