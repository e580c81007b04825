#pragma once

#include <memory>
#include <string>
#include <string_view>

struct SHA256state_st;  // OpenSSL's SHA256_CTX

namespace stagecraft {

/// Computes a SHA-256 digest of text that is added piece by piece.
class Sha256 {
 public:
  /// \throws std::runtime_error  if OpenSSL fails; likewise the functions below.
  Sha256();
  void add(std::string_view piece);
  /// The digest as 64 hexadecimal digits. Nothing can be added afterwards.
  std::string hexadecimal();

 private:
  struct Free {
    void operator()(SHA256state_st* context) const;
  };
  std::unique_ptr<SHA256state_st, Free> context_;
};

}  // namespace stagecraft
