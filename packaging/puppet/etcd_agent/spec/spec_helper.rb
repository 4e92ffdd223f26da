# frozen_string_literal: true

require 'rspec-puppet'

RSpec.configure do |config|
  # The directory that holds this module. It depends on no other.
  config.module_path = File.expand_path('../..', __dir__)
  config.strict_variables = true
end
