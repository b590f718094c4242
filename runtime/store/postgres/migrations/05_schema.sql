ALTER TABLE @.subscriptions ADD COLUMN schema text NOT NULL DEFAULT '';
