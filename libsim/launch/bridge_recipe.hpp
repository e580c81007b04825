#pragma once

#include <string>

#include "libsim/launch/launch_job.hpp"

namespace stagecraft {

/// A recipe of Megatron-Bridge for a job: a Python file whose function config() gives its
/// ConfigContainer, and which torchrun starts. It trains on mock data.
///
/// Each flag of Megatron-LM is a field of one of Megatron-Bridge's configuration classes; fields
/// that the flags leave out but Megatron-Bridge sets otherwise are set to what the plan assumes.
/// Source: megatron-bridge 0.3.1 with megatron-core 0.16.1, megatron/bridge/training/config.py and
/// megatron/bridge/models/gpt_provider.py.
std::string bridge_recipe(LaunchJob const& job);

}  // namespace stagecraft
